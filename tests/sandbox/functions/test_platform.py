"""InferenceCluster, ServingStack and InferenceGateway in the states that the golden files do not show."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.functions.model import API_VERSION, Manifest, Observed, Settings
from sandbox.functions.serving_stack import SLICE, compose
from tests.sandbox.functions.crossplane import composite_is_ready, conditions, settle
from tests.sandbox.functions.manifests import L4, replica

CLASS = {
    "apiVersion": API_VERSION,
    "kind": "InferenceClass",
    "metadata": {"name": "l4"},
    "spec": {"devices": [L4]},
}


def inference_cluster(source: str = "Existing", /, **pool: Any) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceCluster",
        "metadata": {"name": "wl"},
        "spec": {
            "cluster": {"source": source, "existing": {"secretRef": {"name": "kube"}}},
            "nodePools": [{"name": "gpu", "className": "l4", **pool}],
        },
    }


def serving_stack(root: str = "/") -> Manifest:
    return {
        "apiVersion": f"infrastructure.{API_VERSION}",
        "kind": "ServingStack",
        "metadata": {"name": "wl-stack", "namespace": "modelplane-system"},
        "spec": {"nvidiaDriverRoot": root, "secrets": [{"type": "Kubeconfig", "name": "kube", "key": "kubeconfig"}]},
    }


def ready(kind: str = "Object", *, true: bool = True) -> Manifest:
    return {"kind": kind, "metadata": {}, "status": {"conditions": [{"type": "Ready", "status": str(true)}]}}


def test_a_new_cluster_runs_at_once_and_waits_for_its_backend() -> None:
    desired = settle(inference_cluster(), {}, [CLASS])
    assert desired.resources.keys() == {"serving-stack", "cluster-provider-config-kubernetes"}
    assert conditions(desired) == {
        "ClusterReady": ("True", "ClusterRunning", ""),
        "BackendReady": ("False", "Installing", ""),
    }
    assert not composite_is_ready(desired)
    assert "gateway" not in desired.status


@pytest.mark.parametrize(
    ("pool", "nodes"), [({}, 1), ({"nodeCount": 3}, 3), ({"nodeCount": 1, "maxNodeCount": 4}, 4), ({"nodeCount": 0}, 0)]
)
def test_capacity_is_what_the_pool_declares(pool: dict[str, int], nodes: int) -> None:
    assert settle(inference_cluster(**pool), {}, [CLASS]).status["gpuPools"] == [
        {"name": "gpu", "nodes": nodes, "devices": [L4]}
    ]


def test_a_missing_class_is_waited_for_while_replicas_still_guard_the_cluster() -> None:
    desired = settle(inference_cluster(), {}, [replica("wl", 0)])
    message = "Waiting for InferenceClasses: l4"
    assert conditions(desired) == {"ClusterReady": ("False", "WaitingForClasses", message)}
    assert desired.resources.keys() == {"usage-replicas"}


def test_a_cluster_without_replicas_may_be_deleted() -> None:
    desired = settle(inference_cluster(), {}, [CLASS, replica("elsewhere", 0)])
    assert "usage-replicas" not in desired.resources


def test_a_cloud_is_not_played() -> None:
    desired = settle(inference_cluster("GKE"), {}, [CLASS])
    assert (desired.resources, composite_is_ready(desired)) == ({}, False)
    assert "only source Existing" in conditions(desired)["ClusterReady"][2]


def full_stack(root: str = "/") -> dict[str, Manifest]:
    """Everything that a stack composes, as if it had been ready for long."""
    observed: dict[str, Manifest] = {"provider-config-kubernetes": ready("ProviderConfig")}
    for _ in range(5):
        made = compose(Observed(serving_stack(root), observed), Settings()).resources
        observed = {key: ready(item["kind"]) for key, item in made.items()}
    return observed


def test_a_stack_is_ready_although_no_slice_was_ever_published() -> None:
    observed = full_stack()
    observed[SLICE] = ready(true=False)
    assert composite_is_ready(compose(Observed(serving_stack(), observed), Settings()))


def test_without_the_nodes_driver_root_there_is_no_slice_and_the_stack_does_not_say_so() -> None:
    wrong = "/home/kubernetes/bin/nvidia"
    desired = compose(Observed(serving_stack(wrong), full_stack(wrong)), Settings())
    assert SLICE not in desired.resources
    assert composite_is_ready(desired)
    assert SLICE in compose(Observed(serving_stack(wrong), full_stack()), Settings(driver_root=wrong)).resources


def test_a_stack_is_not_ready_without_a_gateway_address() -> None:
    observed = full_stack()
    observed["gateway"] = ready(true=False)
    desired = compose(Observed(serving_stack(), observed), Settings())
    assert not composite_is_ready(desired)
    assert desired.status == {}


def test_the_stack_gives_the_address_of_the_remote_gateway() -> None:
    observed = full_stack()
    addresses = [{"type": "Hostname", "value": "workload-gateway.localhost"}]
    observed["gateway"]["status"]["atProvider"] = {"manifest": {"status": {"addresses": addresses}}}
    desired = compose(Observed(serving_stack(), observed), Settings())
    assert desired.status == {"gateway": {"address": "workload-gateway.localhost"}}


def test_a_stack_is_never_ready_while_it_is_built_up() -> None:
    observed: dict[str, Manifest] = {}
    seen = []
    for _ in range(6):
        desired = compose(Observed(serving_stack(), observed), Settings())
        seen.append(composite_is_ready(desired))
        observed = {key: ready(item["kind"]) for key, item in desired.resources.items()}
    assert seen == sorted(seen), "ready, then not ready again"
    assert seen[:2] == [False, False]
    assert seen[-1]


def test_everything_that_is_composed_keeps_its_provider_config_until_it_is_gone() -> None:
    observed = full_stack()
    made = compose(Observed(serving_stack(), observed), Settings()).resources
    objects = {key for key, item in made.items() if item["kind"] == "Object"}
    assert {key.removeprefix("usage-pc-") for key in made if key.startswith("usage-pc-")} == objects


def test_the_device_is_what_the_driver_publishes_of_an_l4() -> None:
    slice_ = compose(Observed(serving_stack(), full_stack()), Settings(gpu_node="n1")).resources[SLICE]
    spec = slice_["spec"]["forProvider"]["manifest"]["spec"]
    assert (spec["driver"], spec["nodeName"], spec["pool"]["name"]) == ("gpu.nvidia.com", "n1", "n1")
    (device,) = spec["devices"]
    assert device["capacity"] == {"memory": {"value": "23034Mi"}}
    assert device["attributes"]["architecture"] == {"string": "Ada Lovelace"}
    assert device["attributes"]["productName"] == {"string": "NVIDIA L4"}


GATEWAY = {
    "apiVersion": API_VERSION,
    "kind": "InferenceGateway",
    "metadata": {"name": "default"},
    "spec": {"backend": "Traefik", "traefik": {"version": "40.2.0"}},
}


def test_the_gateway_api_comes_before_anything_of_it() -> None:
    first = settle(GATEWAY, {}, [])
    assert {item["kind"] for item in first.resources.values()} == {"CustomResourceDefinition"}
    assert not composite_is_ready(first)
    established = {
        key: {"kind": "CustomResourceDefinition", "status": {"conditions": [{"type": "Established", "status": "True"}]}}
        for key in first.resources
    }
    second = settle(GATEWAY, established, [])
    assert {"gateway", "gateway-class"} <= second.resources.keys()
    assert conditions(second) == {"ControllerReady": ("False", "Installing", "")}


def test_an_inference_gateway_can_be_ready_without_an_address() -> None:
    accepted = {"status": {"conditions": [{"type": "Accepted", "status": "True"}]}}
    established = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    crds = dict.fromkeys(settle(GATEWAY, {}, []).resources, established)
    desired = settle(GATEWAY, {**crds, "gateway": accepted, "gateway-class": accepted}, [])
    assert composite_is_ready(desired)
    assert desired.status == {}
