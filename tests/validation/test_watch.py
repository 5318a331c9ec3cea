"""A scheduled run as its Job starts it: exit code by verdict, the verdict in a ConfigMap, an Event for a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.validation.engines import BASELINE_ARGS, SPEC_ARGS, engine
from tests.validation.kube_server import KubeServer
from tests.validation.test_program import run_program
from tests.validation.test_verdict import verdict
from tests.validation.validating import job
from validation.package import build_zipapp
from validation.verdict import Outcome, Verdict
from validation.watch import message, reason

pytestmark = pytest.mark.process

NAMESPACE, CRON_JOB, UID = "speculation-validation", "speculation-validation", "2f0c"
OWNER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": CRON_JOB, "uid": UID}


@pytest.fixture
def program(tmp_path: Path, kube: KubeServer) -> Path:
    kube.cron_jobs[NAMESPACE, CRON_JOB] = UID
    file = tmp_path / "validation.pyz"
    file.write_bytes(build_zipapp())
    return file


def options(kube: KubeServer) -> tuple[str, ...]:
    return (f"--service-account={kube.service_account}", "--patience=0")


def test_a_right_verdict_is_recorded_and_no_event_is_written(kube: KubeServer, program: Path, tmp_path: Path) -> None:
    given = tmp_path / "input.json"
    with engine(tmp_path) as served:
        kube.pods, kube.logs = [served.pod()], {(served.name, False): served.log_file.read_text()}
        given.write_text(job([served]).to_json())
        ran = run_program(program, kube, None, "watch", CRON_JOB, str(given), *options(kube))
    assert (ran.returncode, ran.stderr, kube.events) == (0, "", [])
    recorded = kube.config_maps[NAMESPACE, "verdict"]
    # Without the label of runs: `up` removes what carries it and is not its own.
    assert recorded["metadata"] == {
        "name": "verdict",
        "namespace": NAMESPACE,
        "labels": {},
        "ownerReferences": [OWNER],
    }
    assert Verdict.from_json(recorded["data"]["verdict.json"]).verdict is Outcome.SPECULATING


def test_a_wrong_verdict_fails_the_job_and_is_an_event_of_the_cron_job(
    kube: KubeServer, program: Path, tmp_path: Path
) -> None:
    given = tmp_path / "input.json"
    with engine(tmp_path, BASELINE_ARGS) as served:
        kube.pods, kube.logs = [served.pod()], {(served.name, False): served.log_file.read_text()}
        given.write_text(job([served], declared=SPEC_ARGS).to_json())
        ran = run_program(program, kube, None, "watch", CRON_JOB, str(given), *options(kube))
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "WRONG: declared-but-off (declared: speculating)" in ran.stdout
    recorded = json.loads(kube.config_maps[NAMESPACE, "verdict"]["data"]["verdict.json"])
    assert kube.events == [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "speculation-validation.", "namespace": NAMESPACE},
            "involvedObject": {**OWNER, "namespace": NAMESPACE},
            "type": "Warning",
            "reason": "DeclaredButOff",
            "message": f"declared: speculating; found: declared-but-off. {recorded['sentence']}",
            "source": {"component": "speculation-validation"},
            "firstTimestamp": recorded["ended"],
            "lastTimestamp": recorded["ended"],
            "count": 1,
        }
    ]


REFUSALS = [
    (
        "events",
        "cannot write an Event in namespace speculation-validation: the ServiceAccount lacks the permission to create "
        "events in namespace speculation-validation (403)\n",
    ),
    (
        "cronjobs",
        "cannot read CronJob speculation-validation/speculation-validation: the ServiceAccount lacks the permission to "
        "get cronjobs of group batch in namespace speculation-validation (403)\n",
    ),
]


@pytest.mark.parametrize(("forbidden", "line"), REFUSALS)
def test_what_cannot_be_written_fails_the_job_with_one_line(
    forbidden: str, line: str, kube: KubeServer, program: Path, tmp_path: Path
) -> None:
    given = tmp_path / "input.json"
    kube.forbidden = {forbidden}
    with engine(tmp_path, BASELINE_ARGS) as served:
        given.write_text(job([served], declared=SPEC_ARGS).to_json())
        ran = run_program(program, kube, None, "watch", CRON_JOB, str(given), *options(kube))
    assert (ran.returncode, ran.stderr) == (1, line)


def test_an_event_has_one_word_and_a_message_that_fits() -> None:
    long = verdict(verdict=Outcome.CANNOT_TELL, ok=False, sentence="é" * 2000)
    assert [reason(verdict(verdict=outcome)) for outcome in Outcome] == [
        "Speculating",
        "Baseline",
        "OnButInert",
        "DeclaredButOff",
        "CorruptOutput",
        "CannotTell",
    ]
    assert 1020 < len(message(long).encode()) <= 1024
    assert message(long).startswith("declared: speculating; found: cannot-tell. ééé")
