"""The device gate: a GPU that the recipe's selectors match is published on a node of the pool, its DeviceClass is
there, and nothing else would keep an engine pod out.

It is the preflight of what only the serving stack brings, asked before the model is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from components.gates import driver
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, Manifest, path
from components.gates.nodes import no_node, of_pool
from components.gates.preflight import Surroundings, survey
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, wait
from modelplane.devices import Device as Published
from modelplane.devices import published, requests_missing

API = "resource.k8s.io/v1"
# A driver republishes a node's slice within a minute of a restart, and a node loses its start-up taints within one:
# what is wrong by then stays wrong.
SETTLE_SECONDS = 60.0
DEVICES_SHOWN = 8


class Device(Gate):
    """Inputs: kubeconfig (workload), device_class, requests [{name, count, selectors [CEL]}], node_pool, secrets
    [{name, key}] that must be there. Output: devices, what was published.
    """

    outputs = ("devices",)

    def identity(self, inputs: Properties) -> str:
        return str(inputs["device_class"])

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        return wait("a node that can run the engine", lambda: probe(kube, inputs), run).outputs


def probe(kube: Kube, inputs: Properties) -> Outcome:
    """Look once."""
    slices = kube.list(path(API, "resourceslices"))
    device_class = kube.find(path(API, "deviceclasses", name=inputs["device_class"]))
    around = survey(kube, inputs["secrets"])
    outcome = judge(slices, device_class, around, inputs)
    if not isinstance(outcome, Waiting):
        return outcome
    if any(entry.get("spec", {}).get("devices") for entry in slices):
        return Waiting(outcome.missing, driver.events(kube), outcome.cause, outcome.remedy)
    found = driver.diagnose(kube)
    if isinstance(found, Failed):
        return found
    return Waiting(
        (*outcome.missing, *found.missing),
        found.events or driver.events(kube),
        found.cause or outcome.cause,
        found.remedy or outcome.remedy,
    )


def judge(
    slices: Sequence[Manifest], device_class: Manifest | None, around: Surroundings, inputs: Properties
) -> Outcome:
    """What the published slices and the engines' surroundings mean for the requests; all failures at once."""
    pool, name, requests = inputs["node_pool"], inputs["device_class"], inputs["requests"]
    nodes = {node["metadata"]["name"] for node in of_pool(around.nodes, pool)}
    devices = published(slices)
    selected = _of_class(devices, device_class)
    usable = [device for device in selected if device.node in nodes or not device.node]
    problems = around.problems(pool, name)
    if usable:
        try:
            problems += [
                f"{line}; change the selector in the recipe, or add a node with such a GPU"
                for line in requests_missing(usable, requests)
            ]
        except ValueError as error:
            return Failed(f"a device selector is not valid CEL ({error})", "correct it in the recipe")
    if problems:
        return Failed(problems[0], settle=SETTLE_SECONDS, also=tuple(problems[1:]))
    missing = [] if usable else [_nothing(slices, devices, selected, name, pool)]
    if device_class is None:
        missing.append(f"DeviceClass {name}, which the DRA driver's chart brings")
    if not nodes:
        missing.append(no_node(pool))
    if not missing:
        return Done({"devices": [str(device) for device in usable[:DEVICES_SHOWN]]})
    cause = "" if usable else "the DRA driver's plugin does not run on the GPU nodes, or finds no NVIDIA driver there"
    return Waiting(tuple(missing), (), cause, driver.LOOK)


def _nothing(
    slices: Sequence[Manifest], devices: Sequence[Published], selected: Sequence[Published], name: str, pool: str
) -> str:
    """In which way nothing usable is published."""
    if selected:
        where = ", ".join(sorted({device.place for device in selected})[:DEVICES_SHOWN])
        return f"no ResourceSlice for {name} on a node of the pool {pool}: the devices are on {where}"
    if devices:
        others = ", ".join(sorted({device.driver for device in devices}))
        return f"no ResourceSlice for {name}: the published devices are of {others} and of another class"
    if slices:
        empty = ", ".join(sorted({str(entry.get("spec", {}).get("nodeName")) for entry in slices})[:DEVICES_SHOWN])
        return f"no ResourceSlice for {name} has a device: those of {empty} are empty, the driver found no GPU"
    return f"no ResourceSlice for {name}: the DRA driver has published nothing"


def _of_class(devices: Sequence[Published], device_class: Manifest | None) -> list[Published]:
    """The devices that the class selects; all while it is not there, or holds what cannot be evaluated here."""
    entries: Iterable[dict[str, Any]] = ((device_class or {}).get("spec") or {}).get("selectors") or []
    selectors = [entry["cel"]["expression"] for entry in entries if entry.get("cel")]
    try:
        return [device for device in devices if device.satisfies(selectors)]
    except ValueError:
        return list(devices)
