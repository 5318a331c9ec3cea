"""When the validation runs again, what its Job is, and what becomes of a run without a verdict."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from components.gates.gate import UNKNOWN
from components.gates.validation_job import job_manifests, read_verdict
from components.gates.validation_run import ValidationRun
from components.gates.verdict import VerdictGate
from components.gates.waiting import GateError
from tests.components.gates.api import Api, Clock, serve
from tests.components.gates.objects import condition, waiting
from validation.settings import JobInput
from validation.verdict import Outcome, Reading, Verdict, Witness, WitnessName

NAMESPACE = "speculation-validation"
JOB = json.dumps(
    {
        "schema": 1,
        "service_address": "http://203.0.113.20/ml-team/m",
        "model": "m",
        "namespace": "default",
        "replicas": ["m-11111"],
        "declared": {"engines": [{"name": "m", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model=m"]}]},
    }
)


def inputs(**changes: Any) -> dict[str, Any]:
    return {
        "kubeconfig": "k1",
        "namespace": NAMESPACE,
        "service_account": NAMESPACE,
        "image": "python:3.13.7-slim",
        "program": NAMESPACE,
        "program_hash": "p1",
        "job": JOB,
        "spec": "s1",
        **changes,
    }


def verdict(found: Outcome = Outcome.SPECULATING) -> Verdict:
    witnesses = tuple(
        Witness(name, Reading.ON, Reading.ON.says, ("seen",), "somewhere", "2026-11-30T00:00:00Z")
        for name in WitnessName
    )
    return Verdict(
        verdict=found,
        declared=Outcome.SPECULATING,
        ok=found is Outcome.SPECULATING,
        sentence="All agree." if found is Outcome.SPECULATING else "It is off.",
        witnesses=witnesses,
        numbers=None,
        run="r",
        engine_version="0.23.0",
        started="2026-11-30T00:00:00Z",
        ended="2026-11-30T00:00:01Z",
    )


def outputs(ok: bool = True, **old: Any) -> dict[str, Any]:
    return {**inputs(**old), "run": "r0", "verdict": "{}", "text": "", "sentence": "s", "ok": ok}


CHANGES = [
    ({}, True, []),
    ({}, False, ["ok"]),
    ({"kubeconfig": "k2"}, True, ["kubeconfig"]),
    ({"program_hash": "p2"}, True, ["program_hash"]),
    ({"spec": "s2", "job": "{}"}, False, ["job", "spec", "ok"]),
]


@pytest.mark.parametrize(("new", "ok", "changed"), CHANGES)
def test_a_wrong_verdict_or_a_change_is_a_reason_to_run_again(
    new: dict[str, str], ok: bool, changed: list[str]
) -> None:
    assert ValidationRun().changed(inputs(), outputs(ok), inputs(**new)) == changed


def test_a_rotated_kubeconfig_is_recorded_without_another_run() -> None:
    kept = {key: outputs()[key] for key in ValidationRun.outputs}
    assert ValidationRun().preview(inputs(kubeconfig="k2"), outputs()) == kept
    assert ValidationRun().update(inputs(kubeconfig="k2"), outputs(), Clock().run()) == kept


def test_a_preview_does_not_know_the_next_verdict() -> None:
    unknown = dict.fromkeys(ValidationRun.outputs, UNKNOWN)
    assert ValidationRun().preview(inputs(spec="s2"), outputs()) == unknown
    assert ValidationRun().preview(inputs(), outputs(ok=False)) == unknown
    assert ValidationRun().preview(inputs(), None) == unknown


def test_the_job_is_locked_down_and_its_input_is_what_the_program_reads() -> None:
    config_map, job = job_manifests(inputs(), "abc")
    read = JobInput.from_json(config_map["data"]["input.json"])
    assert (read.run, read.replicas, read.result.config_map) == ("abc", ("m-11111",), "speculation-verdict-abc")
    assert config_map["metadata"]["labels"] == job["metadata"]["labels"] == {"speculation/run": "abc"}
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert job["spec"]["backoffLimit"] == 0
    assert (pod["restartPolicy"], pod["securityContext"]["runAsNonRoot"], pod["enableServiceLinks"]) == (
        "Never",
        True,
        False,
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["command"] == ["python", "/opt/validation/validation.pyz"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"input": "/etc/validation", "program": "/opt/validation"}


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as running:
        yield running


JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def finish(api: Api, name: str, document: str | None, log: str = "") -> None:
    """What the Job controller and the program do for the Job of a run."""
    run = name.removeprefix("speculation-validation-")
    if document is not None:
        metadata = {"name": f"speculation-verdict-{run}", "labels": {"speculation/run": run}}
        api.put(CONFIG_MAPS, {"metadata": metadata, "data": {"verdict.json": document}})
    elif log:
        api.put(PODS, {"metadata": {"name": "p", "labels": {"speculation/run": run}}, "status": {}})
        api.texts[f"{PODS}/p/log"] = log
    ended = condition(
        "Complete" if document is not None else "Failed", "True", message="Job has reached the backoff limit"
    )
    api.objects[f"{JOBS}/{name}"]["status"] = {"conditions": [ended]}


class Controller(threading.Thread):
    """Finishes the first Job that appears beside those that are there."""

    def __init__(self, api: Api, document: str | None, log: str = "") -> None:
        super().__init__(daemon=True)
        self.api, self.document, self.log = api, document, log
        self.stop = threading.Event()
        self.known = set(api.objects)

    def run(self) -> None:
        while not self.stop.wait(0.005):
            for url in [key for key in {*self.api.objects} - self.known if key.startswith(f"{JOBS}/")]:
                finish(self.api, url.rsplit("/", 1)[1], self.document, self.log)
                return


def left(api: Api) -> list[str]:
    return sorted(key for key in api.objects if key.startswith((JOBS, CONFIG_MAPS)))


class RealClock(Clock):
    """Real waiting, in steps that a test can afford."""

    def run(self, timeout: float = 5.0) -> Any:
        class Brief(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                return super().wait(0.01)

        return replace(super().run(timeout), cancelled=Brief(), clock=time.monotonic)


@pytest.mark.parametrize("found", [Outcome.SPECULATING, Outcome.OFF])
def test_a_verdict_right_or_wrong_is_the_result(found: Outcome, api: Api) -> None:
    Controller(api, verdict(found).to_json()).start()
    told: list[str] = []
    waiting_run = replace(RealClock().run(), tell=told.append)
    result = ValidationRun().create(inputs(kubeconfig=api.kubeconfig), waiting_run)
    # What a person reads in the output of `up`, of a right verdict too.
    assert told == [verdict(found).text()]
    assert (result["ok"], result["verdict"]) == (found is Outcome.SPECULATING, verdict(found).to_json())
    # The Job stays, so that its log can be read, until the next run or destroy.
    assert len(left(api)) == 3
    ValidationRun().delete({**inputs(kubeconfig=api.kubeconfig), **result}, RealClock().run())
    assert left(api) == []


def test_a_run_removes_what_a_killed_pulumi_has_never_recorded(api: Api) -> None:
    given = inputs(kubeconfig=api.kubeconfig)
    for manifest, collection in zip(job_manifests(given, "killed"), (CONFIG_MAPS, JOBS), strict=True):
        api.put(collection, manifest)
    api.put(CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt"}})
    Controller(api, verdict().to_json()).start()
    found = ValidationRun().create(given, RealClock().run())["run"]
    assert left(api) == [
        f"{CONFIG_MAPS}/kube-root-ca.crt",
        f"{CONFIG_MAPS}/speculation-validation-{found}",
        f"{CONFIG_MAPS}/speculation-verdict-{found}",
        f"{JOBS}/speculation-validation-{found}",
    ]


def test_a_repeated_run_removes_the_one_before(api: Api) -> None:
    given = inputs(kubeconfig=api.kubeconfig)
    Controller(api, verdict(Outcome.OFF).to_json()).start()
    first = ValidationRun().create(given, RealClock().run())
    Controller(api, verdict().to_json()).start()
    second = ValidationRun().update(given, {**given, **first}, RealClock().run())
    assert second["ok"] is True
    assert all(str(second["run"]) in key for key in left(api))


WITHOUT = [
    (
        None,
        "ApiError: pods is forbidden\n",
        "gave up on the validation Job: Job has reached the backoff limit, and recorded no verdict: ApiError: pods "
        "is forbidden",
    ),
    (
        None,
        "",
        "gave up on the validation Job: Job has reached the backoff limit, and recorded no verdict: its pod left no "
        "log",
    ),
    ('{"schema": 9}', "", "the validation Job recorded no valid verdict: error: verdict.schema"),
]


@pytest.mark.parametrize(("document", "log", "message"), WITHOUT)
def test_a_run_without_a_verdict_fails_and_leaves_nothing_behind(
    document: str | None, log: str, message: str, api: Api
) -> None:
    Controller(api, document, log).start()
    with pytest.raises(GateError) as raised:
        ValidationRun().create(inputs(kubeconfig=api.kubeconfig), RealClock().run())
    assert str(raised.value).startswith(message)
    assert left(api) == []


def test_an_image_that_cannot_be_pulled_ends_the_wait_and_removes_the_job(api: Api) -> None:
    class Kubelet(Controller):
        def run(self) -> None:
            while not self.stop.wait(0.005):
                for url in [key for key in list(self.api.objects) if key.startswith(f"{JOBS}/")]:
                    labels = self.api.objects[url]["metadata"]["labels"]
                    status = {
                        "phase": "Pending",
                        "containerStatuses": [
                            {
                                "name": "validation",
                                "image": "nope:1",
                                "state": waiting("ErrImagePull", "manifest unknown"),
                            }
                        ],
                    }
                    self.api.put(PODS, {"metadata": {"name": "p", "labels": labels}, "status": status})
                    return

    Kubelet(api, None).start()
    with pytest.raises(GateError) as raised:
        ValidationRun().create(inputs(kubeconfig=api.kubeconfig), RealClock().run())
    assert str(raised.value) == (
        "gave up on the validation Job: pod p, image nope:1: ErrImagePull: manifest unknown (the registry has no "
        "such image); correct the image's name and tag"
    )
    assert left(api) == []


def test_a_document_that_is_no_verdict_is_refused() -> None:
    with pytest.raises(GateError, match="recorded no valid verdict"):
        read_verdict("{}")


def test_the_last_resource_fails_on_a_wrong_verdict_with_its_sentence() -> None:
    gate = VerdictGate()
    assert gate.create({"ok": True, "sentence": "All agree."}, Clock().run()) == {}
    with pytest.raises(GateError) as raised:
        gate.create({"ok": False, "sentence": "It is off."}, Clock().run())
    assert str(raised.value) == (
        "It is off; `pulumi stack output validation` shows the witnesses; the next `pulumi up` validates again"
    )
