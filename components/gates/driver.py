"""Why the NVIDIA DRA driver publishes no GPU: what its DaemonSet, its pods, its init container and its events say.

A ServingStack says Ready while none of them runs (modelplane issue 202).
"""

from __future__ import annotations

from collections.abc import Iterable

from components.gates.errors import KubeError
from components.gates.events import recent, told
from components.gates.kube import Kube, Manifest, path
from components.gates.pods import Workload, explained, judge_pods, look
from components.gates.waiting import Failed, Waiting

# The driver's chart runs there.
NAMESPACE = "dra-driver-nvidia-gpu"
# The check of the init container prints three lines every ten seconds.
LOG_LINES = 20
LABELS = "`kubectl label node GPU_NODE nvidia.com/gpu.present=true`"
LOOK = f"`kubectl get daemonsets,pods,events -n {NAMESPACE}` on the workload cluster shows where it stands"


def diagnose(kube: Kube) -> Waiting | Failed:
    """Look once at a driver that has published nothing."""
    sets = kube.list(path("apps/v1", "daemonsets", namespace=NAMESPACE))
    workload = look(kube, NAMESPACE, "")
    return judge(sets, workload, _init_log(kube, workload.pods))


def events(kube: Kube) -> tuple[str, ...]:
    """What was told of the driver's objects, oldest first."""
    names = [
        entry["metadata"]["name"]
        for api_version, plural in (("v1", "pods"), ("apps/v1", "daemonsets"))
        for entry in kube.list(path(api_version, plural, namespace=NAMESPACE))
    ]
    return tuple(recent(kube, NAMESPACE, names))


def judge(sets: Iterable[Manifest], workload: Workload, init_log: str = "") -> Waiting | Failed:
    """What they say together. init_log: the last lines of an init container that runs."""
    sets = list(sets)
    if not sets:
        return Waiting((f"no DaemonSet in namespace {NAMESPACE}: the serving stack has not installed the driver",))
    for entry in sets:
        name, status = entry["metadata"]["name"], entry.get("status") or {}
        wanted, present = int(status.get("desiredNumberScheduled") or 0), int(status.get("currentNumberScheduled") or 0)
        if not wanted:
            cause = "no node has a label by which the driver finds NVIDIA hardware, or its taint is not tolerated"
            return Waiting((f"DaemonSet {name} wants no pod on any node",), cause=cause, remedy=LABELS)
        refused = told(workload.events, [name])
        if present < wanted and refused:
            return explained(f"DaemonSet {name} has {present} of {wanted} pods: {refused[-1]}", refused[-1], "event")
    found = judge_pods(workload)
    if isinstance(found, Failed) or not init_log:
        return found
    checked = explained("the driver's init container waits", init_log, "pod")
    if isinstance(checked, Failed) or not checked.cause:
        return found
    return Waiting((*found.missing, *checked.missing), found.events, checked.cause, checked.remedy)


def _init_log(kube: Kube, pods: Iterable[Manifest]) -> str:
    for pod in pods:
        for status in pod.get("status", {}).get("initContainerStatuses") or []:
            if (status.get("state") or {}).get("running") is None:
                continue
            url = path("v1", "pods", namespace=NAMESPACE, name=pod["metadata"]["name"], sub="log")
            try:
                return kube.text(f"{url}?container={status['name']}&tailLines={LOG_LINES}")
            except KubeError:
                continue
    return ""
