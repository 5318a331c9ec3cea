"""What pods that do not come up say of the reason: their status, their events, their container's log.

The cause table (engine/causes.py) says what each message means and whether waiting can still help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.gates.errors import KubeError
from components.gates.events import told
from components.gates.kube import Kube, Manifest, path
from components.gates.waiting import Failed, Waiting, sentence
from engine.causes import Where, explain_log, find_cause, last_line
from engine.redact import redact

# What a container that is only being prepared says.
PREPARING = ("", "ContainerCreating", "PodInitializing")
# One exit may be a lost download; a second restart that ends the same way is the engine's own answer.
RESTARTS_BELIEVED = 2
# Enough for a Python traceback with the one that caused it.
LOG_LINES = 400


@dataclass(frozen=True)
class Workload:
    """Pods with their events, the log of each container that exited (pod name -> text), and pods that are ending."""

    pods: tuple[Manifest, ...] = ()
    events: tuple[Manifest, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    ending: tuple[str, ...] = ()


def look(kube: Kube, namespace: str, labels: str | None, *, rivals: str = "") -> Workload:
    """Read the pods that match `labels` (all when empty, none when None). rivals: label of pods that hold the same kind
    of device.
    """
    found = [] if labels is None else kube.list(path("v1", "pods", namespace=namespace), labels=labels)
    pods = [pod for pod in found if not _ending(pod)]
    logs = {pod["metadata"]["name"]: _log(kube, namespace, pod) for pod in pods if any(map(_exited, _containers(pod)))}
    others = kube.list(path("v1", "pods", namespace=namespace), labels=rivals) if rivals else []
    ending = sorted(pod["metadata"]["name"] for pod in others if _ending(pod))
    return Workload(tuple(pods), tuple(kube.list(path("v1", "events", namespace=namespace))), logs, tuple(ending))


def judge_pods(workload: Workload) -> Waiting | Failed:
    """Failed for what cannot heal; else what each pod waits for."""
    missing: list[str] = []
    cause = remedy = ""
    for pod in workload.pods:
        found = _judge(pod, workload)
        if isinstance(found, Failed):
            return found
        missing += found.missing
        cause, remedy = cause or found.cause, remedy or found.remedy
    names = {pod["metadata"]["name"] for pod in workload.pods}
    return Waiting(tuple(missing), tuple(told(workload.events, names)), cause, remedy)


def explained(text: str, message: str, where: Where) -> Waiting | Failed:
    """What a message means for the wait. text: what is shown of it."""
    known = find_cause(message, where)
    if known is None:
        return Waiting((text,))
    if known.terminal:
        return Failed(f"{text} ({known.cause})", known.remedy, known.grace_s)
    return Waiting((text,), cause=known.cause, remedy=known.remedy)


def _judge(pod: Manifest, workload: Workload) -> Waiting | Failed:
    name = pod["metadata"]["name"]
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = str(condition.get("message") or condition.get("reason") or "no reason given")
            if workload.ending:
                # The device is given back when the pod of before has ended: a replaced engine waits for it.
                return Waiting((f"pod {name} is not scheduled while pod {workload.ending[0]} is ending",))
            return explained(f"pod {name} is not scheduled: {message}", message, "event")
    for status in _containers(pod):
        if _exited(status):
            return _crashed(name, status, workload.logs.get(name, ""))
        reason, message = _waiting(status)
        if reason not in PREPARING:
            text = f"pod {name}, image {status.get('image')}: {reason}: {message or 'no message'}"
            return explained(text, f"{reason}: {message}", "pod")
    phase = pod.get("status", {}).get("phase", "Unknown")
    if phase == "Succeeded" or (_containers(pod) and all(status.get("ready") for status in _containers(pod))):
        return Waiting(())
    return Waiting((f"pod {name} is {phase}" + (" and not ready yet" if phase == "Running" else ""),))


def _crashed(name: str, status: Manifest, log: str) -> Waiting | Failed:
    restarts = int(status.get("restartCount") or 0)
    ended = _terminated(status)
    error, known = explain_log(log)
    how = f"{ended.get('reason')} exit code {ended.get('exitCode')}"
    if error is None and (last := last_line(log)):
        # Without an error the last words are wherever it was when it ended.
        how += f", last line: {last}"
        known = find_cause(how, "pod") or known
    known = known or find_cause(how, "pod")
    said = error or _told(ended, log)
    container = status.get("name")
    text = redact(f"{container} in pod {name} exits with code {ended.get('exitCode', '?')}: {said}")
    cause = known.cause if known else ""
    remedy = known.remedy if known else f"its log: `kubectl logs {name} -c {container} --previous`"
    if (known is not None and known.terminal) or restarts >= RESTARTS_BELIEVED:
        return Failed(f"{text} ({cause})" if cause else text, remedy)
    return Waiting((sentence(text, "", f"{restarts} restarts so far"),), cause=cause, remedy=remedy)


def _told(ended: Manifest, log: str) -> str:
    """What is shown of an end without an error."""
    why = str(ended.get("message") or ended.get("reason") or "it left no error")
    last = last_line(log)
    return f"{why}; its last line: {last}" if last else why


def _containers(pod: Manifest) -> list[dict[str, Any]]:
    return pod.get("status", {}).get("containerStatuses") or []


def _ending(pod: Manifest) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _waiting(status: Manifest) -> tuple[str, str]:
    waiting = (status.get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason") or ""), " ".join(str(waiting.get("message") or "").split())


def _terminated(status: Manifest) -> dict[str, Any]:
    return (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated") or {}


def _exited(status: Manifest) -> bool:
    """Whether the container ended with an error and is not running again."""
    state = status.get("state") or {}
    return _waiting(status)[0] == "CrashLoopBackOff" or bool((state.get("terminated") or {}).get("exitCode"))


def _log(kube: Kube, namespace: str, pod: Manifest) -> str:
    """The log of the run that ended: the container's own, or that of the one before while a new one is awaited."""
    status = next(filter(_exited, _containers(pod)))
    url = path("v1", "pods", namespace=namespace, name=pod["metadata"]["name"], sub="log")
    first = "false" if (status.get("state") or {}).get("terminated") else "true"
    for previous in (first, "false"):
        try:
            return kube.text(f"{url}?container={status['name']}&tailLines={LOG_LINES}&previous={previous}")
        except KubeError:
            continue
    return ""
