"""The device gate: the workload cluster publishes devices that the recipe's selectors match, and the DeviceClass to
claim them.

A ServingStack says Ready when the DRA driver has published nothing (modelplane issue 202), so this looks at the
ResourceSlices themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from components.gates.events import recent
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, Manifest, path
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, wait
from modelplane.readiness import devices_missing

API = "resource.k8s.io/v1"
# The DRA driver's chart runs there; its events say why no plugin came up.
DRIVER_NAMESPACE = "dra-driver-nvidia-gpu"
# A driver republishes a node's slice within a minute of a restart: a device that does not match by then will not.
SETTLE_SECONDS = 60.0


class Device(Gate):
    """Inputs: kubeconfig (workload), device_class, requests [{name, count, selectors [CEL]}]. Output: devices, what
    was published.
    """

    outputs = ("devices",)

    def identity(self, inputs: Properties) -> str:
        return str(inputs["device_class"])

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        return wait("a GPU that the recipe's selectors match", lambda: probe(kube, inputs), run).outputs


def probe(kube: Kube, inputs: Properties) -> Outcome:
    """Look once."""
    slices = kube.list(path(API, "resourceslices"))
    device_class = kube.find(path(API, "deviceclasses", name=inputs["device_class"]))
    outcome = judge(
        slices,
        has_class=device_class is not None,
        device_class=inputs["device_class"],
        requests=inputs["requests"],
    )
    if isinstance(outcome, Waiting):
        pods = [pod["metadata"]["name"] for pod in kube.list(path("v1", "pods", namespace=DRIVER_NAMESPACE))]
        sets = [ds["metadata"]["name"] for ds in kube.list(path("apps/v1", "daemonsets", namespace=DRIVER_NAMESPACE))]
        return Waiting(
            outcome.missing, tuple(recent(kube, DRIVER_NAMESPACE, [*pods, *sets])), outcome.cause, outcome.remedy
        )
    return outcome


def judge(
    slices: Sequence[Manifest], *, has_class: bool, device_class: str, requests: Iterable[dict[str, Any]]
) -> Outcome:
    """What the published slices mean for the requests."""
    from modelplane.kinds.model_deployment import DeviceRequest  # noqa: PLC0415 - pydantic models are slow to load

    wanted = [
        DeviceRequest.model_validate({**request, "selectors": [{"cel": cel} for cel in request["selectors"]]})
        for request in requests
    ]
    try:
        missing = devices_missing(slices, wanted)
    except ValueError as error:
        return Failed(f"a device selector is not valid CEL ({error})", "correct it in the recipe")
    described = [line for entry in slices for line in _describe(entry)]
    if not described:
        cause = "the DRA driver's plugin does not run on the GPU nodes, or finds no NVIDIA driver there"
        remedy = f"`kubectl get pods,events -n {DRIVER_NAMESPACE}` on the workload cluster shows which"
        return Waiting(tuple(missing), (), cause, remedy)
    if missing:
        seen = ", ".join(described)
        return Failed(
            f"no published device satisfies the recipe: {'; '.join(missing)} ({seen})",
            "change the selector in the recipe, or add a node with such a GPU",
            settle=SETTLE_SECONDS,
        )
    if not has_class:
        return Waiting((f"DeviceClass {device_class}, which the DRA driver's chart brings",))
    return Done({"devices": described})


def _describe(entry: Manifest) -> Iterable[str]:
    """`gpu-1/gpu-0: NVIDIA L4, 23034Mi` for each device of a slice."""
    spec = entry.get("spec", {})
    for device in spec.get("devices") or []:
        product = (device.get("attributes") or {}).get("productName", {}).get("string", "device")
        memory = (device.get("capacity") or {}).get("memory", {}).get("value", "memory not published")
        yield f"{spec.get('nodeName') or spec.get('pool', {}).get('name')}/{device['name']}: {product}, {memory}"
