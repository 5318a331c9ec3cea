"""What a composition function sees and what it answers, as plain values.

Each kind's module has ``compose(observed, settings) -> Desired``: no clock, no network, no state. ``server`` translates
from and to Crossplane's gRPC messages. A function is called again until what it requires no longer changes, so it may
be called before what it requires was fetched: ``Observed.required`` is then empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]

# Seconds until a function is called again without a change of its composite or of what that composes, which Crossplane
# watches. It does not watch what a function requires: SOON while someone waits for that, LATER once all is as wanted.
SOON = 2.0
LATER = 5.0
# When nothing is required. Each call applies all that is composed anew. (Modelplane: 60 s for everything.)
RARELY = 60.0

API_VERSION = "modelplane.ai/v1alpha1"


@dataclass(frozen=True)
class Settings:
    """What the sandbox decides and Modelplane's functions would not ask for.

    public_port: port of the control-plane gateway in a ModelService's address (None: no port, as Modelplane writes it);
    gpu_node: name of the node that gets a ResourceSlice; driver_root: where that node has the NVIDIA driver.
    """

    public_port: int | None = None
    gpu_node: str = "gpu-1"
    driver_root: str = "/"


@dataclass(frozen=True)
class Selector:
    """Resources that a function wants to read: one by name, or all with these labels (none: all of the kind)."""

    kind: str
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    api_version: str = API_VERSION


@dataclass(frozen=True)
class Condition:
    """A status condition of the composite. message "": none."""

    type: str
    status: bool
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Observed:
    """The composite, what it composed so far (by resource name) and what was required (by requirement name)."""

    composite: Manifest
    resources: Mapping[str, Manifest] = field(default_factory=dict)
    required: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.composite["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.composite["metadata"].get("namespace", ""))

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.composite.get("spec", {})
        return spec

    def required_one(self, name: str) -> Manifest | None:
        found = self.required.get(name, ())
        return found[0] if found else None

    def is_true(self, key: str, condition: str = "Ready") -> bool:
        """Whether the composed resource says so in its conditions."""
        return is_true(self.resources.get(key), condition)


@dataclass
class Desired:
    """A function's answer.

    resources: composed resources by name; ready: names of those that are; status: the composite's, without conditions;
    composite_ready: None leaves it to Crossplane, for which a composite is ready when all that it composes is, even if
    that is nothing; warnings: events on the composite; ttl: seconds until the function is called again anyway.
    """

    resources: dict[str, Manifest] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    status: Manifest = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    requires: dict[str, Selector] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    composite_ready: bool | None = None
    ttl: float = RARELY

    def add(self, key: str, manifest: Manifest, *, ready: bool = False) -> None:
        self.resources[key] = manifest
        if ready:
            self.ready.add(key)

    def condition(self, type_: str, status: bool, reason: str, message: str = "") -> None:  # noqa: FBT001
        self.conditions.append(Condition(type_, status, reason, message))

    def holds(self, type_: str, reason: str, message: str = "") -> None:
        self.condition(type_, status=True, reason=reason, message=message)

    def lacks(self, type_: str, reason: str, message: str = "") -> None:
        self.condition(type_, status=False, reason=reason, message=message)


def is_true(manifest: Manifest | None, condition: str) -> bool:
    """Whether a resource says so in status.conditions."""
    conditions = (manifest or {}).get("status", {}).get("conditions", [])
    return any(c.get("type") == condition and c.get("status") == "True" for c in conditions)


def dig(manifest: Manifest | None, *path: str) -> Any:  # noqa: ANN401 (what JSON holds)
    """The value at a path of keys, or None where the path ends early."""
    value: Any = manifest
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
