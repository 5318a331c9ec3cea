from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from lightkube.models.core_v1 import ContainerStatus
from lightkube.resources.core_v1 import Pod

from sandbox.runner.references import canonical_reference, image_id
from sandbox.runner.states import ContainerState, PodState, Running, Terminated, Waiting, restarts, restored
from sandbox.runner.status import pod_phase, pod_status
from tests.sandbox.runner.pods import made, pod

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
NOW_TEXT = "2026-11-30T12:00:00Z"
RUNNING = ContainerState(Running(NOW), container_id="bubblewrap://1", ready=True, started=True)
UNREADY = replace(RUNNING, ready=False)
DONE = ContainerState(Terminated(0, "Completed", "", NOW, NOW, "bubblewrap://1"), container_id="bubblewrap://1")
FAILED = ContainerState(Terminated(3, "Error", "", NOW, NOW, "bubblewrap://1"), container_id="bubblewrap://1")
CRASHING = FAILED.restarting("CrashLoopBackOff", "back-off 10s")
NEVER_RAN = ContainerState(Waiting("ImagePullBackOff", "Back-off pulling image"))
NEW = ContainerState()

INIT = {"initContainers": [{"name": "init", "image": "python"}]}
SIDECAR = {"initContainers": [{"name": "init", "image": "python", "restartPolicy": "Always"}]}
NEVER, ON_FAILURE = {"restartPolicy": "Never"}, {"restartPolicy": "OnFailure"}


@pytest.mark.parametrize(
    ("spec", "states", "ended", "phase"),
    [
        ({}, {}, False, "Pending"),
        ({}, {"c0": NEVER_RAN}, False, "Pending"),
        ({}, {"c0": RUNNING}, False, "Running"),
        ({}, {"c0": UNREADY}, False, "Running"),
        # Always: a container that ended will run again, whatever its code.
        ({}, {"c0": DONE}, False, "Running"),
        ({}, {"c0": CRASHING}, False, "Running"),
        ({}, {"c0": DONE}, True, "Succeeded"),
        ({}, {"c0": FAILED}, True, "Failed"),
        ({}, {"c0": CRASHING}, True, "Failed"),
        (NEVER, {"c0": DONE}, False, "Succeeded"),
        (NEVER, {"c0": FAILED}, False, "Failed"),
        (ON_FAILURE, {"c0": DONE}, False, "Succeeded"),
        (ON_FAILURE, {"c0": FAILED}, False, "Running"),
        (ON_FAILURE, {"c0": CRASHING}, False, "Running"),
        (INIT, {}, False, "Pending"),
        (INIT, {"init": RUNNING}, False, "Pending"),
        (INIT, {"init": FAILED}, False, "Pending"),
        (INIT | NEVER, {"init": FAILED}, False, "Failed"),
        (INIT, {"init": DONE, "c0": NEW}, False, "Pending"),
        (INIT, {"init": DONE, "c0": RUNNING}, False, "Running"),
        (SIDECAR, {"init": RUNNING, "c0": NEW}, False, "Pending"),
        (SIDECAR | NEVER, {"init": DONE, "c0": DONE}, True, "Succeeded"),
    ],
)
def test_the_phase_of_a_pod(spec: dict[str, Any], states: dict[str, ContainerState], ended: bool, phase: str) -> None:
    assert pod_phase(pod(**spec), PodState(containers=states, ended=ended)) == phase


def conditions(item: Pod, state: PodState, old: dict[str, Any] | None = None) -> dict[str, tuple[str, Any, Any]]:
    status = pod_status(item, state, old or {}, NOW)
    return {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in status["conditions"]}


UNREADY_CONDITION = ("False", "ContainersNotReady", "containers with unready status: [c0]")
TRUE, FALSE = ("True", None, None), ("False", None, None)


@pytest.mark.parametrize(
    ("spec", "state", "expected"),
    [
        ({}, PodState(), (FALSE, TRUE, UNREADY_CONDITION, UNREADY_CONDITION)),
        ({}, PodState({"c0": RUNNING}, sandbox_ready=True), (TRUE, TRUE, TRUE, TRUE)),
        ({}, PodState({"c0": CRASHING}, sandbox_ready=True), (TRUE, TRUE, UNREADY_CONDITION, UNREADY_CONDITION)),
        (
            NEVER,
            PodState({"c0": DONE}, sandbox_ready=True, ended=True),
            (FALSE, ("True", "PodCompleted", None), ("False", "PodCompleted", None), ("False", "PodCompleted", None)),
        ),
        (
            NEVER,
            PodState({"c0": FAILED}, sandbox_ready=True, ended=True),
            (FALSE, TRUE, ("False", "PodFailed", None), ("False", "PodFailed", None)),
        ),
        (
            INIT,
            PodState({"init": RUNNING}, sandbox_ready=True),
            (
                TRUE,
                ("False", "ContainersNotInitialized", "containers with incomplete status: [init]"),
                UNREADY_CONDITION,
                UNREADY_CONDITION,
            ),
        ),
        (
            {"readinessGates": [{"conditionType": "ml/loaded"}]},
            PodState({"c0": RUNNING}, sandbox_ready=True),
            (
                TRUE,
                TRUE,
                (
                    "False",
                    "ReadinessGatesNotReady",
                    'corresponding condition of pod readiness gate "ml/loaded" does not exist.',
                ),
                TRUE,
            ),
        ),
    ],
)
def test_the_conditions_of_a_pod(
    spec: dict[str, Any], state: PodState, expected: tuple[tuple[str, Any, Any], ...]
) -> None:
    names = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    assert conditions(pod(**spec), state) == dict(zip(names, expected, strict=True))


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    earlier = "2026-11-30T11:00:00Z"
    old = {
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": earlier} for kind in ("Initialized", "Ready")
        ]
    }
    status = pod_status(pod(), PodState({"c0": UNREADY}), old, NOW)
    times = {entry["type"]: entry["lastTransitionTime"] for entry in status["conditions"]}
    assert (times["Initialized"], times["Ready"]) == (earlier, NOW_TEXT)


def test_the_whole_status_of_an_engine_that_crashed_and_runs_again() -> None:
    mounts = [{"name": "t", "mountPath": "/run/t", "readOnly": True}, {"name": "d", "mountPath": "/dev/shm"}]
    item = pod(
        {"image": "vllm/vllm-openai:v0.23.0", "volumeMounts": mounts, "resources": {"claims": [{"name": "gpu"}]}}
    )
    again = replace(FAILED.restarting("CrashLoopBackOff", ""), state=Running(NOW), restart_count=1, started=True)
    state = PodState({"c0": again}, pod_ip="127.20.0.7", start_time=NOW, sandbox_ready=True)
    unready = {"reason": "ContainersNotReady", "message": "containers with unready status: [c0]"}
    nothing = {"reason": None, "message": None}
    times = {"lastProbeTime": None, "lastTransitionTime": NOW_TEXT, "observedGeneration": 1}
    assert pod_status(item, state, {}, NOW) == {
        "observedGeneration": 1,
        "phase": "Running",
        "conditions": [
            {"type": "PodReadyToStartContainers", "status": "True", **times, **nothing},
            {"type": "Initialized", "status": "True", **times, **nothing},
            {"type": "Ready", "status": "False", **times, **unready},
            {"type": "ContainersReady", "status": "False", **times, **unready},
        ],
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": "127.20.0.7",
        "podIPs": [{"ip": "127.20.0.7"}],
        "startTime": NOW_TEXT,
        "containerStatuses": [
            {
                "name": "c0",
                "image": "docker.io/vllm/vllm-openai:v0.23.0",
                "imageID": image_id("vllm/vllm-openai:v0.23.0"),
                "containerID": "bubblewrap://1",
                "state": {"running": {"startedAt": NOW_TEXT}},
                "lastState": {
                    "terminated": {
                        "exitCode": 3,
                        "reason": "Error",
                        "startedAt": NOW_TEXT,
                        "finishedAt": NOW_TEXT,
                        "containerID": "bubblewrap://1",
                    }
                },
                "ready": False,
                "started": True,
                "restartCount": 1,
                "resources": {"claims": [{"name": "gpu"}]},
                "volumeMounts": [
                    {"name": "t", "mountPath": "/run/t", "readOnly": True, "recursiveReadOnly": "Disabled"},
                    {"name": "d", "mountPath": "/dev/shm"},
                ],
            }
        ],
    }


def test_a_container_that_was_not_started_waits_for_what_comes_before_it() -> None:
    def reasons(spec: dict[str, Any], kind: str) -> list[str]:
        status = pod_status(pod(**spec), PodState(), {}, NOW)
        return [entry["state"]["waiting"]["reason"] for entry in status[kind]]

    assert reasons({}, "containerStatuses") == ["ContainerCreating"]
    assert reasons(INIT, "containerStatuses") == ["PodInitializing"]
    assert reasons(INIT, "initContainerStatuses") == ["PodInitializing"]


@pytest.mark.parametrize(
    ("spec", "index", "code", "again"),
    [
        ({}, "containers", 0, True),
        (NEVER, "containers", 1, False),
        (ON_FAILURE, "containers", 1, True),
        (ON_FAILURE, "containers", 0, False),
        (INIT, "initContainers", 0, False),
        (INIT, "initContainers", 1, True),
        (SIDECAR | NEVER, "initContainers", 0, True),
    ],
)
def test_who_runs_again(spec: dict[str, Any], index: str, code: int, again: bool) -> None:
    item = pod(**spec)
    assert restarts(item, getattr(item.spec, index)[0], code) is again


def test_a_runner_that_starts_takes_what_ran_before_it_for_ended() -> None:
    def status(state: dict[str, Any], last: dict[str, Any] | None = None) -> ContainerStatus:
        document = {"name": "c0", "image": "i", "imageID": "", "ready": True, "restartCount": 2, "containerID": "x://1"}
        return made(ContainerStatus, {**document, "state": state, "lastState": last or {}})

    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    unknown = Terminated(
        137,
        "ContainerStatusUnknown",
        "The container could not be located when the pod was terminated",
        NOW,
        None,
        "x://1",
    )
    cases = [
        (status({"running": {"startedAt": NOW_TEXT}}), ContainerState(unknown, None, 2, "x://1")),
        (status(ended), ContainerState(Terminated(3, "Error"), None, 2, "x://1")),
        (
            status({"waiting": {"reason": "CrashLoopBackOff"}}, ended),
            ContainerState(Terminated(3, "Error"), None, 2, "x://1"),
        ),
        (status({"waiting": {"reason": "ContainerCreating"}}), ContainerState(None, None, 2, "x://1")),
    ]
    for given, expected in cases:
        assert restored([given]) == {"c0": expected}


@pytest.mark.parametrize(
    ("reference", "canonical"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.13-slim", "docker.io/library/python:3.13-slim"),
        ("vllm/vllm-openai:v0.23.0", "docker.io/vllm/vllm-openai:v0.23.0"),
        ("ghcr.io/llm-d/epp:v1", "ghcr.io/llm-d/epp:v1"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("python@sha256:abc", "docker.io/library/python@sha256:abc"),
    ],
)
def test_references_are_written_as_runtimes_do(reference: str, canonical: str) -> None:
    assert canonical_reference(reference) == canonical
