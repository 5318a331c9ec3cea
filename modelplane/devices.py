"""Published GPUs against what a recipe asks for: which device requests no node satisfies, and why.

Pure functions on ResourceSlices (resource.k8s.io/v1) as the API server returns them. Each request is looked at alone:
whether the requests of a pod fit together, and whether another pod holds a device, is the scheduler's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelplane.cel import compared_values, matches

Manifest = Mapping[str, Any]

# What a selector reads of a device: device.capacity["domain"].name, device.attributes["domain"]["name"].
_READ = re.compile(
    r"device\.(?P<kind>attributes|capacity)\[(?P<q>[\"'])(?P<domain>[\w./-]+)(?P=q)\]"
    r"(?:\.(?P<name>[A-Za-z_]\w*)|\[[\"'](?P<quoted>[A-Za-z_]\w*)[\"']\])",
    re.ASCII,
)
# Devices that fail for different reasons; more would not fit a line.
_REASONS_SHOWN = 3


@dataclass(frozen=True)
class Device:
    """One published device. node: that it is on, "" when it belongs to no single one; pool: of its slice."""

    node: str
    pool: str
    name: str
    driver: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]

    @property
    def product(self) -> str:
        """Its product name, "device" when the driver publishes none."""
        return str(_value(self.attributes, self.driver, "productName") or "device")

    @property
    def place(self) -> str:
        """Where devices must be together: a node, or a pool without one."""
        return self.node or self.pool

    def __str__(self) -> str:
        memory = _value(self.capacity, self.driver, "memory") or "memory not published"
        return f"{self.place}/{self.name}: {self.product}, {memory}"

    def satisfies(self, selectors: Iterable[str]) -> bool:
        """Whether all CEL expressions hold for it. ValueError: one is no CEL."""
        return matches(selectors, self.driver, self.attributes, self.capacity)


def published(slices: Iterable[Manifest]) -> list[Device]:
    """The devices of all slices; of a pool only those of its newest generation, as the scheduler takes them."""
    specs = [entry.get("spec") or {} for entry in slices]
    newest: dict[tuple[Any, Any], int] = {}
    for spec in specs:
        pool = _pool(spec)
        newest[pool] = max(newest.get(pool, 0), _generation(spec))
    return [
        Device(
            node=str(spec.get("nodeName") or ""),
            pool=str(_pool(spec)[1]),
            name=str(device.get("name")),
            driver=str(spec.get("driver")),
            attributes=device.get("attributes") or {},
            capacity=device.get("capacity") or {},
        )
        for spec in specs
        if _generation(spec) == newest[_pool(spec)]
        for device in spec.get("devices") or []
    ]


def requests_missing(devices: Sequence[Device], requests: Iterable[Manifest]) -> list[str]:
    """Device requests that no node satisfies, with the values found and those wanted.

    requests: [{name, count, selectors [CEL]}]. ValueError: a selector is no CEL.
    """
    missing = []
    for request in requests:
        selectors, count = list(request["selectors"]), int(request["count"])
        fitting: dict[str, int] = {}
        for device in devices:
            if device.satisfies(selectors):
                fitting[device.place] = fitting.get(device.place, 0) + 1
        best = max(fitting.values(), default=0)
        if best >= count:
            continue
        text = f"device request {request['name']} needs {count} on one node"
        if best:
            missing.append(f"{text}, and no node publishes more than {best} that fits")
        else:
            why = _reasons(devices, selectors)
            missing.append(f"{text}, and no published device fits: {'; '.join(why)}")
    return missing


def mismatch(device: Device, selectors: Iterable[str]) -> str:
    """Why a device does not satisfy the selectors: the values found and those wanted."""
    return ", ".join(_unlike(device, selector.strip()) for selector in selectors if not device.satisfies([selector]))


def _unlike(device: Device, selector: str) -> str:
    compared = compared_values(selector)
    if compared is not None:
        domain, name, operator, quantity = compared
        found = _value(device.capacity, device.driver, name, domain) or "not published"
        return f"{name} is {found}, wanted {operator} {quantity}"
    read: dict[str, str] = {}
    for match in _READ.finditer(selector):
        values = device.attributes if match["kind"] == "attributes" else device.capacity
        name = match["name"] or match["quoted"]
        found = _value(values, device.driver, name, match["domain"])
        read[name] = "not published" if found is None else str(found)
    shown = ", ".join(f"{name} is {value}" for name, value in read.items()) or f"driver is {device.driver}"
    return f"{shown}, wanted {' '.join(selector.split())}"


def _reasons(devices: Sequence[Device], selectors: Sequence[str]) -> list[str]:
    """One entry for each way in which devices fail, the first device named."""
    ways: dict[tuple[str, str], list[Device]] = {}
    for device in devices:
        ways.setdefault((device.product, mismatch(device, selectors)), []).append(device)
    lines = []
    for (product, why), alike in list(ways.items())[:_REASONS_SHOWN]:
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        lines.append(f"{alike[0].place}/{alike[0].name}{more} ({product}): {why}")
    left = sum(map(len, list(ways.values())[_REASONS_SHOWN:]))
    return [*lines, f"and {left} other devices"] if left else lines


def _pool(spec: Manifest) -> tuple[Any, Any]:
    return spec.get("driver"), (spec.get("pool") or {}).get("name")


def _generation(spec: Manifest) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _value(values: Mapping[str, Mapping[str, Any]], driver: str, name: str, domain: str = "") -> Any:  # noqa: ANN401
    """What a driver published under a name: text, number or truth; None when it did not.

    A bare name is in the driver's own domain.
    """
    keys = [f"{domain or driver}/{name}"] + ([name] if domain in ("", driver) else [])
    entry = next((values[key] for key in keys if key in values), None)
    return next(iter(entry.values()), None) if entry else None
