"""Derived names: the published examples, and every name in the objects that Modelplane v0.3.1 composed."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane import names
from tests.modelplane.shared import golden, needs_upstream


def the(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (one,) = objects
    return one


def test_the_examples_of_the_naming_formula_hold() -> None:
    assert {
        "stack gke": names.serving_stack_name("gke-l4"),
        "stack eks": names.serving_stack_name("eks-l4"),
        "provider config": names.cluster_provider_config_name("gke-l4"),
        "replica gke": names.replica_name("qwen3-8b-spec", "gke-l4", 0),
        "replica eks": names.replica_name("qwen3-8b-spec", "eks-l4", 0),
        "workload": names.workload_name("qwen3-8b-spec-54ef8", "qwen3-8b-spec"),
    } == {
        "stack gke": "gke-l4-serving-stack-239e4",
        "stack eks": "eks-l4-serving-stack-f1cfe",
        "provider config": "gke-l4-cluster-kubeconfig-0e1a8",
        "replica gke": "qwen3-8b-spec-54ef8",
        "replica eks": "qwen3-8b-spec-e796b",
        "workload": "qwen3-8b-spec-54ef8-qwen3-8b-spec-73f3b",
    }


@pytest.mark.parametrize("length", [1, 56, 57, 58, 200])
def test_a_child_name_fits_a_label_value_and_depends_on_the_uncut_text(length: int) -> None:
    text = "a" * length
    name = names.child_name(text, "b")
    assert len(name) <= 63
    assert name != names.child_name(text, "c")


@needs_upstream
def test_every_golden_name_is_predicted() -> None:
    deployment = the(golden("control-plane.modeldeployments"))
    cluster = the(golden("control-plane.inferenceclusters"))["metadata"]["name"]
    replica = names.replica_name(deployment["metadata"]["name"], cluster, 0)
    engine = deployment["spec"]["template"]["spec"]["engines"][0]
    stack = names.serving_stack_name(cluster)
    picker = names.picker_name(replica)

    def named(kind: str) -> list[str]:
        return sorted(found["metadata"]["name"] for found in golden(kind))

    assert named("control-plane.modelreplicas") == [replica]
    assert named("control-plane.modelendpoints") == [replica]
    assert named("control-plane.servingstacks") == [stack]
    assert named("control-plane.clusterproviderconfigs-kubernetes") == [names.cluster_provider_config_name(cluster)]
    assert named("control-plane.providerconfigs-kubernetes") == [names.stack_provider_config_name(stack)]
    assert named("workload.deployments") == sorted([names.workload_name(replica, engine["name"]), picker])
    role = engine["members"][0]["role"]
    assert named("workload.resourceclaimtemplates") == [names.claim_template_name(replica, engine["name"], role)]
    assert named("workload.inferencepools") == [names.pool_name(replica)]
    for kind in ("roles", "rolebindings", "serviceaccounts", "configmaps", "services"):
        assert picker in named(f"workload.{kind}")
    assert named("workload.httproutes") == [replica]
    route = the(golden("workload.httproutes"))
    assert route["spec"]["rules"][0]["matches"][0]["path"]["value"] == names.route_path("ml-team", replica)


@needs_upstream
def test_golden_labels_and_addresses_are_what_the_stack_looks_for() -> None:
    replica = the(golden("control-plane.modelreplicas"))["metadata"]
    assert {key: value for key, value in replica["labels"].items() if key.startswith("modelplane.ai/")} == {
        names.DEPLOYMENT_LABEL: "qwen3-8b-spec",
        names.CLUSTER_LABEL: "wl",
        names.REPLICA_INDEX_LABEL: "0",
    }
    engine = next(d for d in golden("workload.deployments") if not d["metadata"]["name"].endswith("-epp"))
    assert engine["metadata"]["namespace"] == names.ENGINE_NAMESPACE
    assert engine["spec"]["template"]["metadata"]["labels"] == {
        names.SERVING_LABEL: replica["name"],
        names.WORKLOAD_LABEL: engine["metadata"]["name"],
    }
    gateway = the(golden("control-plane.inferencegateways"))["status"]["address"]
    service = the(golden("control-plane.modelservices"))
    assert service["status"]["address"] == names.service_address(gateway, "ml-team", service["metadata"]["name"])
