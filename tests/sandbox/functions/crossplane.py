"""What real Crossplane does around a composition function, as far as a test of a pure function needs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandbox.functions.model import Desired, Manifest, Observed, Selector, Settings
from sandbox.functions.server import COMPOSE

KEY = "crossplane.io/composition-resource-name"


def settle(
    composite: Manifest, resources: dict[str, Manifest], world: Iterable[Manifest], settings: Settings | None = None
) -> Desired:
    """Call a kind's function until what it requires is stable, resolving requirements from the world."""
    world = list(world)
    compose = COMPOSE[composite["kind"]]
    required: dict[str, list[Manifest]] = {}
    before: dict[str, Selector] | None = None
    for _ in range(6):  # Crossplane gives up after five
        desired = compose(Observed(composite, resources, required), settings or Settings())
        if desired.requires == before:
            return desired
        before = desired.requires
        required = {name: found(world, selector) for name, selector in desired.requires.items()}
    raise AssertionError(f"requirements never settle: {before}")


def found(world: Iterable[Manifest], selector: Selector) -> list[Manifest]:
    """The manifests that a selector means."""
    return [item for item in world if _selected(item, selector)]


def _selected(item: Manifest, selector: Selector) -> bool:
    if (item["apiVersion"], item["kind"]) != (selector.api_version, selector.kind):
        return False
    if selector.name is not None:
        return bool(item["metadata"]["name"] == selector.name)
    labels = item["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.labels.items())


def composite_is_ready(desired: Desired) -> bool:
    """Crossplane's rule for the Ready condition of a composite."""
    if desired.composite_ready is not None:
        return desired.composite_ready
    return all(key in desired.ready for key in desired.resources)


def conditions(desired: Desired) -> dict[str, tuple[str, str, str]]:
    """type: (status, reason, message)."""
    return {c.type: (str(c.status), c.reason, c.message) for c in desired.conditions}


def told(manifest: Manifest) -> dict[str, tuple[str, str, str]]:
    """The same of a manifest, without the conditions that Crossplane itself sets."""
    listed: list[dict[str, Any]] = manifest.get("status", {}).get("conditions", [])
    own = [c for c in listed if c["type"] not in ("Synced", "Ready", "Responsive")]
    return {c["type"]: (c["status"], c["reason"], c.get("message", "")) for c in own}
