"""The stand-ins against what Modelplane v0.3.1 composed in the same situation: objects, statuses, conditions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandbox.functions.model import Manifest
from tests.sandbox.functions.crossplane import composite_is_ready, conditions, settle, told
from tests.sandbox.functions.golden import asked, children, load, needs_golden, one, with_remote

pytestmark = needs_golden

COMPOSITES = (
    "InferenceClass",
    "InferenceCluster",
    "InferenceGateway",
    "ServingStack",
    "ModelDeployment",
    "ModelReplica",
    "ModelEndpoint",
    "ModelService",
)


@pytest.fixture(scope="module")
def control_plane() -> list[Manifest]:
    return load("control-plane")


@pytest.fixture(scope="module")
def workload() -> list[Manifest]:
    return load("workload")


@pytest.mark.parametrize("kind", COMPOSITES)
def test_a_function_asks_for_what_modelplane_asked_for(
    kind: str, control_plane: list[Manifest], workload: list[Manifest]
) -> None:
    composite = one(control_plane, kind)
    golden = with_remote(children(control_plane, composite), workload)
    desired = settle(composite, _present(golden), control_plane)

    wanted = {key: asked(item) for key, item in golden.items() if not _left_out(item)}
    namespace = composite["metadata"].get("namespace")
    made = {key: _stored(item, namespace) for key, item in desired.resources.items() if not _added(key)}
    assert made == wanted


@pytest.mark.parametrize("kind", COMPOSITES)
def test_a_function_reports_what_modelplane_reported(
    kind: str, control_plane: list[Manifest], workload: list[Manifest]
) -> None:
    composite = one(control_plane, kind)
    golden = with_remote(children(control_plane, composite), workload)
    desired = settle(composite, _present(golden), control_plane)

    status = {key: value for key, value in composite["status"].items() if key != "conditions"}
    assert desired.status == status
    assert conditions(desired) == told(composite)
    assert composite_is_ready(desired) == (_condition(composite, "Ready") == "True")


@pytest.mark.parametrize("kind", COMPOSITES)
def test_what_modelplane_composed_and_the_golden_files_only_name_is_composed_too(
    kind: str, control_plane: list[Manifest], workload: list[Manifest]
) -> None:
    """CRDs are only referenced in the golden files: the references are compared by kind and name, or by number."""
    composite = one(control_plane, kind)
    golden = with_remote(children(control_plane, composite), workload)
    desired = settle(composite, _present(golden), control_plane)
    refs = composite["spec"]["crossplane"]["resourceRefs"]

    named = sorted(ref["name"] for ref in refs if ref["kind"] == "CustomResourceDefinition")
    assert named == sorted(
        item["metadata"]["name"] for item in desired.resources.values() if item["kind"] == "CustomResourceDefinition"
    )
    objects = [
        key for key, item in desired.resources.items() if item["kind"] == "Object" and not key.startswith("chart-")
    ]
    assert len(objects) == sum(ref["kind"] == "Object" for ref in refs)


def test_what_is_on_the_workload_cluster_is_what_modelplane_put_there(
    control_plane: list[Manifest], workload: list[Manifest]
) -> None:
    """Every object of the golden workload side is asked for by some function, but what Kubernetes itself derived."""
    asked_for = set()
    for kind in ("ServingStack", "ModelReplica"):
        composite = one(control_plane, kind)
        golden = with_remote(children(control_plane, composite), workload)
        for item in settle(composite, _present(golden), control_plane).resources.values():
            if item["kind"] == "Object":
                manifest = item["spec"]["forProvider"]["manifest"]
                asked_for.add((manifest["kind"], manifest["metadata"]["name"]))
    stored = {(item["kind"], item["metadata"]["name"]) for item in workload if item["kind"] != "ResourceClaim"}
    assert stored <= asked_for


def _present(golden: dict[str, Manifest]) -> dict[str, Manifest]:
    """What a function would observe: the golden children, and those that the files leave out, as if ready."""
    observed = copy.deepcopy(golden)
    for key in ("backendtlspolicies", "gatewayclasses", "gateways", "grpcroutes", "httproutes", "listenersets"):
        observed[f"crd-{key}.gateway.networking.k8s.io"] = _true("CustomResourceDefinition", "Established")
    for key in ("referencegrants", "tlsroutes"):
        observed[f"crd-{key}.gateway.networking.k8s.io"] = _true("CustomResourceDefinition", "Established")
    for key in ("httproutes", "gateways", "gatewayclasses"):
        observed[f"chart-crd-{key}.gateway.networking.k8s.io"] = _true("Object", "Ready")
    for key in (
        "gaie-crd-inferencepools.inference.networking.k8s.io",
        "gaie-crd-inferencepools.inference.networking.x-k8s.io",
        "gaie-crd-inferenceobjectives.inference.networking.x-k8s.io",
        "chart-crd-envoyproxies.gateway.envoyproxy.io",
        "chart-crd-certificates.cert-manager.io",
        "chart-crd-podmonitors.monitoring.coreos.com",
        "chart-namespace-dra-driver",
        "chart-device-class",
    ):
        observed[key] = _true("Object", "Ready")
    return observed


def _true(kind: str, condition: str) -> Manifest:
    return {"kind": kind, "metadata": {}, "status": {"conditions": [{"type": condition, "status": "True"}]}}


def _condition(manifest: Manifest, type_: str) -> str:
    (found,) = [c["status"] for c in manifest["status"]["conditions"] if c["type"] == type_]
    return str(found)


# The intended differences of `sandbox.functions.DIFFERENCES`, and no others.


def _left_out(item: Manifest) -> bool:
    """Releases, provider-helm's configuration, and Usages with a Release or that configuration on either side."""
    if item["kind"] == "Release" or item["apiVersion"].startswith("helm."):
        return True
    sides = [item["spec"].get(side, {}) for side in ("of", "by")] if item["kind"].endswith("Usage") else []
    return any(side.get("apiVersion", "").startswith("helm.") for side in sides)


def _added(key: str) -> bool:
    """What comes in place of Releases, and CRDs, which the golden files only name."""
    return key.startswith(("chart-", "usage-chart-", "usage-pc-chart-", "crd-", "gaie-crd-"))


def _stored(item: Manifest, namespace: str | None) -> Manifest:
    """In its composite's namespace, where Crossplane puts it, and without the watch that golden Objects do not have."""
    made: dict[str, Any] = copy.deepcopy(item)
    if namespace:
        made.setdefault("metadata", {}).setdefault("namespace", namespace)
    if made["kind"] == "Object":
        made["spec"].pop("watch")
    return made
