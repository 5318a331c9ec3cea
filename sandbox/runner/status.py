"""A pod's status from the states of its containers. Pure; as kubelet 1.36 (status/generate.go, kubelet_pods.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lightkube.models.core_v1 import Container, Pod

from sandbox.runner.references import canonical_reference, image_id
from sandbox.runner.states import ContainerState, PodState, Running, State, Terminated, Waiting, is_sidecar, restarts


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


def _go_list(names: Sequence[str]) -> str:
    return "[" + " ".join(names) + "]"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
