"""What the gateway knows of one cluster: objects as the API server last gave them, by kind, namespace and name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.gateway.dialects import GATEWAY_GROUP, POOL_GROUP

Manifest = Mapping[str, Any]
Key = tuple[str, str]
# Kind -> API group, version, plural, whether it has a namespace.
KINDS: dict[str, tuple[str, str, str, bool]] = {
    "GatewayClass": (GATEWAY_GROUP, "v1", "gatewayclasses", False),
    "Gateway": (GATEWAY_GROUP, "v1", "gateways", True),
    "HTTPRoute": (GATEWAY_GROUP, "v1", "httproutes", True),
    "Service": ("", "v1", "services", True),
    "EndpointSlice": ("discovery.k8s.io", "v1", "endpointslices", True),
    "InferencePool": (POOL_GROUP, "v1", "inferencepools", True),
    "Pod": ("", "v1", "pods", True),
}


class Snapshot:
    """Objects of one cluster. changed: set whenever something did; version: counts the changes."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Manifest]] = {kind: {} for kind in KINDS}
        self.changed = asyncio.Event()
        self.version = 0

    def put(self, kind: str, manifest: Manifest) -> None:
        self._objects[kind][key(manifest)] = manifest
        self._touch()

    def drop(self, kind: str, manifest: Manifest) -> None:
        self._objects[kind].pop(key(manifest), None)
        self._touch()

    def replace(self, kind: str, manifests: list[Manifest]) -> None:
        """All objects of a kind, after a new list."""
        self._objects[kind] = {key(manifest): manifest for manifest in manifests}
        self._touch()

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        return self._objects[kind].get((namespace, name))

    def all(self, kind: str, namespace: str | None = None) -> Iterator[Manifest]:
        for (found, _), manifest in sorted(self._objects[kind].items()):
            if namespace is None or found == namespace:
                yield manifest

    def _touch(self) -> None:
        self.version += 1
        self.changed.set()


def key(manifest: Manifest) -> Key:
    meta = manifest["metadata"]
    return meta.get("namespace") or "", meta["name"]
