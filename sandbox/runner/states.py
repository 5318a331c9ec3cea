"""What the runner knows of a pod and its containers: the states that its status is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from lightkube.models.core_v1 import Container, ContainerStatus, Pod
from lightkube.models.core_v1 import ContainerState as LastState

UNKNOWN_REASON = "ContainerStatusUnknown"
_UNKNOWN_MESSAGE = "The container could not be located when the pod was terminated"


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
