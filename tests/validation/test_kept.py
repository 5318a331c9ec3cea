"""Start-up lines that a validation keeps of a container, and who may use them later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.validation.engines import BASELINE_ARGS, SPEC_ARGS, Engine, Pool
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job
from validation.kept import CONFIG_MAP
from validation.kube import Kube
from validation.run import validate
from validation.verdict import Verdict, WitnessName

pytestmark = pytest.mark.process

PLACE = ("speculation-validation", CONFIG_MAP)
LOG = WitnessName.ENGINE_LOG
SECRET = "tok-3f9a71c2"


def look(kube: KubeServer, served: Engine, *, rotated: bool = False, pod: dict[str, Any] | None = None) -> Verdict:
    log = served.log_file.read_text()
    kube.pods = [pod or served.pod()]
    kube.logs = {(served.name, False): log[log.index("GET /health") :] if rotated else log}
    return validate(job([served]), Kube(kube.url, kube.service_account), patience_s=0)


@pytest.mark.parametrize(("args", "verdict"), [(SPEC_ARGS, "speculating"), (BASELINE_ARGS, "baseline")])
def test_later_validations_use_the_lines_that_the_first_one_kept_and_say_so(
    kube: KubeServer, pool: Pool, args: tuple[str, ...], verdict: str
) -> None:
    served = pool.engine(args)
    first, later = look(kube, served), look(kube, served, rotated=True)
    assert (first.verdict, later.verdict, first.notes) == (verdict, verdict, ())
    assert later.witness(LOG).reading is first.witness(LOG).reading
    assert later.witness(LOG).source.endswith("container engine, and start-up lines kept of it")
    kept = json.loads(kube.config_maps[PLACE]["data"][f"default.{served.name}"])
    assert later.notes == (f"the start-up lines of {served.name} are those that the validation of {kept['time']} kept",)
    assert kube.requests.count("patch configmaps speculation-validation") == 1, "written once"


def test_kept_lines_are_held_against_recipe_and_tag_as_the_logs_own(kube: KubeServer, pool: Pool) -> None:
    served = pool.engine((*BASELINE_ARGS, SPEC_ARGS[-1].replace("5", "3")))
    look(kube, served)
    served.args = SPEC_ARGS
    found = look(kube, served, rotated=True).witness(LOG)
    assert found.reading == "differs"
    assert found.evidence[0].startswith("declared 5 tokens, the engine says 3")


OTHERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "restarted": lambda pod: pod["status"]["containerStatuses"][0].update(restartCount=1, containerID="containerd://2"),
    "restarted under one id": lambda pod: pod["status"]["containerStatuses"][0].update(restartCount=1),
    "another pod of this name": lambda pod: pod["metadata"].update(uid="another"),
    "no id": lambda pod: pod["status"]["containerStatuses"][0].pop("containerID"),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_lines_of_another_container_are_never_used(
    kube: KubeServer, pool: Pool, change: Callable[[dict[str, Any]], object]
) -> None:
    served = pool.engine()
    look(kube, served)
    pod = served.pod()
    change(pod)
    found = look(kube, served, rotated=True, pod=pod)
    assert (found.witness(LOG).reading, found.notes) == ("unknown", ())
    assert found.witness(LOG).why.endswith("(rotated away, or not vLLM), and none was kept of this container")


@pytest.mark.parametrize("content", ["", "null", "{", '{"container": 1}', '{"container": "X", "lines": [1]}'])
def test_a_broken_record_is_none(kube: KubeServer, pool: Pool, content: str) -> None:
    served = pool.engine()
    identity = f"uid-of-{served.name} 0 containerd://{served.ip}"
    kube.config_maps[PLACE] = {"data": {f"default.{served.name}": content.replace("X", identity)}}
    assert look(kube, served, rotated=True).witness(LOG).reading == "unknown"


def test_what_cannot_be_kept_is_said(kube: KubeServer, pool: Pool) -> None:
    kube.forbidden = {"configmaps"}
    assert look(kube, pool.engine()).notes == (
        "start-up lines could not be kept for later validations: cannot write ConfigMap "
        f"speculation-validation/{CONFIG_MAP}: the ServiceAccount lacks the permission to create and patch configmaps "
        "in namespace speculation-validation (403)",
    )


def test_no_secret_is_kept(kube: KubeServer, pool: Pool) -> None:
    served = pool.engine((*SPEC_ARGS, f"--api-key={SECRET}"))
    assert SECRET in served.log_file.read_text()
    first, later = look(kube, served), look(kube, served, rotated=True)
    assert (first.verdict, later.verdict) == ("speculating", "speculating")
    assert SECRET not in json.dumps(kube.config_maps[PLACE]) + first.to_json() + later.to_json()
