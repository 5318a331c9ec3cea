"""What Modelplane v0.3.1 itself composed, cut back to what its functions asked for."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.functions.model import Manifest
from tests.sandbox.functions.crossplane import KEY

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "modelplane" / "golden" / "v0.3.1"

needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="what Modelplane v0.3.1 composed is not beside this checkout"
)

# Fields that the API server or Crossplane filled in, by kind: in a stored object, not in a function's answer.
_FILLED: dict[str, tuple[str, ...]] = {
    "Object": ("spec.managementPolicies", "spec.watch"),
    "Service": (
        "spec.clusterIP",
        "spec.clusterIPs",
        "spec.internalTrafficPolicy",
        "spec.ipFamilies",
        "spec.ipFamilyPolicy",
        "spec.sessionAffinity",
        "spec.type",
    ),
    "ServingStack": ("spec.nvidiaDriverRoot",),  # the XRD's default
}


def load(prefix: str) -> list[Manifest]:
    """All golden manifests of one side: "control-plane" or "workload"."""
    found: list[Manifest] = []
    for path in sorted(GOLDEN.glob(f"{prefix}.*.yaml")):
        found += [item for item in yaml.safe_load_all(path.read_text()) if item]
    return found


def one(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    (found,) = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    return found


def children(manifests: list[Manifest], composite: Manifest) -> dict[str, Manifest]:
    """What a composite composed, by resource name."""
    own = (composite["kind"], composite["metadata"]["name"])
    return {
        m["metadata"]["annotations"][KEY]: m
        for m in manifests
        for owner in m["metadata"].get("ownerReferences", [])
        if owner.get("controller") and (owner["kind"], owner["name"]) == own
    }


def with_remote(resources: dict[str, Manifest], workload: list[Manifest]) -> dict[str, Manifest]:
    """Objects with the state of the remote object in status.atProvider, which the golden files leave out."""
    full = copy.deepcopy(resources)
    for item in full.values():
        if item["kind"] == "Object":
            wanted = item["spec"]["forProvider"]["manifest"]
            for remote in workload:
                if (remote["kind"], remote["metadata"]["name"]) == (wanted["kind"], wanted["metadata"]["name"]):
                    item["status"]["atProvider"] = {"manifest": remote}
    return full


def asked(manifest: Manifest) -> Manifest:
    """A stored object as the function asked for it."""
    item = copy.deepcopy(manifest)
    item.pop("status", None)
    meta = item["metadata"]
    for field in ("ownerReferences", "finalizers", "uid", "resourceVersion", "generation", "creationTimestamp"):
        meta.pop(field, None)
    meta.pop("managedFields", None)
    annotations = {k: v for k, v in meta.pop("annotations", {}).items() if not k.startswith("crossplane.io/")}
    labels = {k: v for k, v in meta.pop("labels", {}).items() if k != "crossplane.io/composite"}
    if meta.pop("generateName", None):
        meta.pop("name")
    meta |= {key: value for key, value in (("annotations", annotations), ("labels", labels)) if value}
    if not meta:
        del item["metadata"]
    item.get("spec", {}).pop("crossplane", None)
    for path in _FILLED.get(item["kind"], ()):
        _drop(item, path.split("."))
    if item["kind"] == "HTTPRoute":
        _without_route_defaults(item["spec"])
    return item


def _without_route_defaults(spec: dict[str, Any]) -> None:
    for parent in spec["parentRefs"]:
        parent.pop("group", None)
        parent.pop("kind", None)
    for rule in spec["rules"]:
        for backend in rule.get("backendRefs", []):
            backend.pop("group", None)
            backend.pop("kind", None)


def _drop(item: dict[str, Any], path: list[str]) -> None:
    for key in path[:-1]:
        item = item.get(key, {})
    item.pop(path[-1], None)
