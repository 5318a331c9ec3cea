"""A pod's status from the states of its containers. Pure; as kubelet 1.36 (status/generate.go, kubelet_pods.go)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from lightkube.models.core_v1 import Container, ContainerStatus, Pod
from lightkube.models.core_v1 import ContainerState as LastState

UNKNOWN_REASON = "ContainerStatusUnknown"
_UNKNOWN_MESSAGE = "The container could not be located when the pod was terminated"
# Conditions of the kubelet; the others (PodScheduled, DisruptionTarget...) belong to someone else and are left alone.
OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


@dataclass(frozen=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Running:
    started_at: datetime


@dataclass(frozen=True)
class Terminated:
    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""


State = Waiting | Running | Terminated


@dataclass(frozen=True)
class ContainerState:
    """One container: what it does now (None: nothing was tried yet), how it ended last, and what its probes say."""

    state: State | None = None
    last: Terminated | None = None
    restart_count: int = 0
    container_id: str = ""
    ready: bool = False
    started: bool = False

    def restarting(self, reason: str, message: str) -> ContainerState:
        """Between an end and the next start."""
        last = self.state if isinstance(self.state, Terminated) else self.last
        return replace(self, state=Waiting(reason, message), last=last, ready=False, started=False)


@dataclass(frozen=True)
class PodState:
    """A pod as its runner knows it.

    sandbox_ready: it has its address and volumes; ended: none of its containers will run again.
    """

    containers: Mapping[str, ContainerState] = field(default_factory=dict)
    host_ip: str = "127.0.0.1"
    pod_ip: str = ""
    start_time: datetime | None = None
    sandbox_ready: bool = False
    ended: bool = False
    # Set when the pod was ended as a whole, such as by its deadline.
    failure: tuple[str, str] | None = None


def is_sidecar(container: Container) -> bool:
    """A restartable init container."""
    return container.restartPolicy == "Always"


def restarts(pod: Pod, container: Container, exit_code: int) -> bool:
    """Does a container that ended this way run again?"""
    assert pod.spec is not None
    policy = "Always" if is_sidecar(container) else pod.spec.restartPolicy or "Always"
    if policy == "Always" and container in (pod.spec.initContainers or []) and not is_sidecar(container):
        policy = "OnFailure"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def pod_status(pod: Pod, state: PodState, old: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status to write, as a strategic merge patch: null removes a field. old: the status written before."""
    assert pod.spec is not None and pod.metadata is not None
    phase = pod_phase(pod, state)
    generation = pod.metadata.generation
    inits = list(pod.spec.initContainers or [])
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "phase": phase,
        "conditions": _conditions(pod, state, phase, old, now),
        "hostIP": state.host_ip,
        "hostIPs": [{"ip": state.host_ip}],
        "startTime": _time(state.start_time or now),
        "containerStatuses": [
            _container_status(item, state.containers.get(item.name), waiting_for_init=bool(inits))
            for item in pod.spec.containers
        ],
    }
    if inits:
        status["initContainerStatuses"] = [
            _container_status(item, state.containers.get(item.name), waiting_for_init=True) for item in inits
        ]
    if state.pod_ip:
        status |= {"podIP": state.pod_ip, "podIPs": [{"ip": state.pod_ip}]}
    if state.failure:
        status |= {"reason": state.failure[0], "message": state.failure[1]}
    return status


def pod_phase(pod: Pod, state: PodState) -> str:
    assert pod.spec is not None
    if state.failure or _initialization_failed(pod, state):
        return "Failed"
    known = [(item, _known(state, item)) for item in pod.spec.containers]
    ends = [(item, end) for item, found in known if (end := _end(found))]
    running = [item for item, found in known if isinstance(found.state, Running)]
    if len(ends) + len(running) < len(known):
        return "Pending"
    if running or (not state.ended and any(restarts(pod, item, end.exit_code) for item, end in ends)):
        return "Running"
    return "Succeeded" if all(end.exit_code == 0 for _, end in ends) else "Failed"


def _initialization_failed(pod: Pod, state: PodState) -> bool:
    """Did an init container fail for good? (When the pod has ended as a whole, any failure is.)"""
    assert pod.spec is not None
    inits = [item for item in pod.spec.initContainers or [] if not is_sidecar(item)]
    ends = [(item, end) for item in inits if (end := _end(_known(state, item)))]
    return any(end.exit_code != 0 and (state.ended or not restarts(pod, item, end.exit_code)) for item, end in ends)


def _known(state: PodState, container: Container) -> ContainerState:
    return state.containers.get(container.name, ContainerState())


def _succeeded(state: ContainerState) -> bool:
    end = _end(state)
    return end is not None and end.exit_code == 0


def _end(state: ContainerState) -> Terminated | None:
    """How a container that does not run now ended last; None while it runs and when it never ran."""
    if isinstance(state.state, Running):
        return None
    return state.state if isinstance(state.state, Terminated) else state.last


def _any_started(pod: Pod, state: PodState) -> bool:
    assert pod.spec is not None
    return any(
        found.state is not None and (found.container_id or found.last)
        for item in pod.spec.containers
        if (found := _known(state, item))
    )


def _conditions(pod: Pod, state: PodState, phase: str, old: Mapping[str, Any], now: datetime) -> list[dict[str, Any]]:
    assert pod.spec is not None and pod.metadata is not None
    ready = _ready_condition(pod, state, phase)
    found = {
        "PodReadyToStartContainers": (state.sandbox_ready and not state.ended, "", ""),
        "Initialized": _initialized_condition(pod, state, phase),
        "Ready": _gates(pod, ready),
        "ContainersReady": ready,
    }
    before = {item["type"]: item for item in old.get("conditions") or []}
    conditions = []
    for kind, (true, reason, message) in found.items():
        value = "True" if true else "False"
        previous = before.get(kind, {})
        same = previous.get("status") == value
        conditions.append(
            {
                "type": kind,
                "status": value,
                "observedGeneration": pod.metadata.generation,
                "lastProbeTime": None,
                "lastTransitionTime": previous.get("lastTransitionTime") if same else _time(now),
                "reason": reason or None,
                "message": message or None,
            }
        )
    return conditions


Verdict = tuple[bool, str, str]


def _ready_condition(pod: Pod, state: PodState, phase: str) -> Verdict:
    assert pod.spec is not None
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    sidecars = [item for item in pod.spec.initContainers or [] if is_sidecar(item)]
    unready = [item.name for item in (*sidecars, *pod.spec.containers) if not _known(state, item).ready]
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: {_go_list(unready)}"
    return True, "", ""


def _gates(pod: Pod, ready: Verdict) -> Verdict:
    assert pod.spec is not None
    if not ready[0] or not pod.spec.readinessGates:
        return ready
    known = {item.type: item.status for item in (pod.status and pod.status.conditions) or []}
    messages = []
    for gate in pod.spec.readinessGates:
        kind = gate.conditionType
        if kind not in known:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif known[kind] != "True":
            messages.append(f'the status of pod readiness gate "{kind}" is not "True", but {known[kind]}')
    return (False, "ReadinessGatesNotReady", ", ".join(messages)) if messages else ready


def _initialized_condition(pod: Pod, state: PodState, phase: str) -> Verdict:
    assert pod.spec is not None
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    if _any_started(pod, state):
        return True, "", ""
    incomplete = [
        item.name
        for item in pod.spec.initContainers or []
        if not (_known(state, item).started if is_sidecar(item) else _succeeded(_known(state, item)))
    ]
    if incomplete:
        return False, "ContainersNotInitialized", f"containers with incomplete status: {_go_list(incomplete)}"
    return True, "", ""


def _container_status(container: Container, found: ContainerState | None, *, waiting_for_init: bool) -> dict[str, Any]:
    found = found or ContainerState()
    default = Waiting("PodInitializing" if waiting_for_init else "ContainerCreating")
    state = found.state or default
    ran = bool(found.container_id)
    status: dict[str, Any] = {
        "name": container.name,
        "image": canonical_reference(container.image or "") if ran else container.image,
        "imageID": image_id(container.image or "") if ran else "",
        "state": _state(state),
        "lastState": _state(found.last) if found.last else {},
        "ready": found.ready,
        "started": found.started,
        "restartCount": found.restart_count,
        "resources": container.resources.to_dict() if container.resources else {},
    }
    if ran:
        status["containerID"] = found.container_id
    if container.volumeMounts:
        status["volumeMounts"] = [
            {"name": item.name, "mountPath": item.mountPath}
            | ({"readOnly": True, "recursiveReadOnly": "Disabled"} if item.readOnly else {})
            for item in container.volumeMounts
        ]
    return status


def _state(state: State) -> dict[str, Any]:
    match state:
        case Waiting():
            return {"waiting": {"reason": state.reason} | ({"message": state.message} if state.message else {})}
        case Running():
            return {"running": {"startedAt": _time(state.started_at)}}
        case Terminated():
            return {
                "terminated": {"exitCode": state.exit_code, "reason": state.reason}
                | ({"message": state.message} if state.message else {})
                | ({"startedAt": _time(state.started_at)} if state.started_at else {})
                | ({"finishedAt": _time(state.finished_at)} if state.finished_at else {})
                | ({"containerID": state.container_id} if state.container_id else {})
            }


def restored(statuses: Iterable[ContainerStatus]) -> dict[str, ContainerState]:
    """What a new runner knows from its predecessor's last status: what ran then has ended since, nobody saw how."""
    return {item.name: _restored(item) for item in statuses}


def _restored(status: ContainerStatus) -> ContainerState:
    last = _terminated(status.lastState)
    state: State | None = _terminated(status.state)
    container_id = status.containerID or ""
    if status.state and status.state.running:
        state = Terminated(137, UNKNOWN_REASON, _UNKNOWN_MESSAGE, status.state.running.startedAt, None, container_id)
    elif state is None and last is not None:
        # It waited for its next start: that it ended is what matters for what comes next.
        state, last = last, None
    # A container that had succeeded is done, and an init container that had is ready for good.
    ready = isinstance(state, Terminated) and state.exit_code == 0 and bool(status.ready)
    return ContainerState(state, last, status.restartCount, container_id, ready=ready)


def _terminated(state: LastState | None) -> Terminated | None:
    end = state.terminated if state else None
    if end is None:
        return None
    return Terminated(
        end.exitCode, end.reason or "", end.message or "", end.startedAt, end.finishedAt, end.containerID or ""
    )


def canonical_reference(reference: str) -> str:
    """An image reference as container runtimes write it: `python:3.13` is `docker.io/library/python:3.13`."""
    first, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif "." not in first and ":" not in first and first != "localhost":
        reference = f"docker.io/{reference}"
    name = reference.rpartition("/")[2]
    return reference if ":" in name or "@" in name else f"{reference}:latest"


def image_id(reference: str) -> str:
    """Names the image in the form of a digest. There is no image here: it is a digest of the reference."""
    canonical = canonical_reference(reference)
    if "@" in canonical:
        return canonical
    repository = canonical.rpartition(":")[0]
    return f"{repository}@sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _go_list(names: Sequence[str]) -> str:
    return "[" + " ".join(names) + "]"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
