"""ModelDeployment, ModelReplica, ModelEndpoint and ModelService in the states that the golden files do not show."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.names import replica_name
from sandbox.functions.model import API_VERSION, Desired, Manifest, Settings
from tests.sandbox.functions.crossplane import composite_is_ready, conditions, settle
from tests.sandbox.functions.manifests import cluster, deployment, engine, replica

NAME = replica_name("md", "wl", 0)
Told = dict[str, tuple[str, str, str]]


def scheduled(status: str, reason: str, message: str = "") -> tuple[str, str, str]:
    return (status, reason, message)


@pytest.mark.parametrize(
    ("why", "manifest", "world", "observed", "told", "ready", "counts"),
    [
        (
            "Ready although nothing can ever run: no cluster matches",
            deployment(clusterSelector={"matchLabels": {"region": "moon"}}),
            [cluster()],
            {},
            {"ReplicasScheduled": ("False", "NoClusters", "")},
            True,
            None,
        ),
        (
            "nothing fits",
            deployment(engines=[engine(count=2)]),
            [cluster()],
            {},
            {
                "ReplicasScheduled": (
                    "False",
                    "InsufficientCapacity",
                    "0 of 1 replicas scheduled (checked 1 clusters)",
                ),
                "ReplicasReady": ("False", "NoReplicasScheduled", ""),
            },
            False,
            {"total": 0, "ready": 0},
        ),
        (
            "placed, not yet created",
            deployment(),
            [cluster()],
            {},
            {
                "ReplicasScheduled": ("False", "Scheduling", ""),
                "ReplicasReady": ("False", "ModelStarting", "0 of 1 ready"),
            },
            False,
            {"total": 1, "ready": 0},
        ),
        (
            "a shortfall says True, only the message tells",
            deployment(replicas=3),
            [cluster()],
            {"replica-wl-0": replica("wl", 0, ready=True)},
            {
                "ReplicasScheduled": ("True", "ReplicasCreated", "Scheduled 1 of 3 replicas"),
                "ReplicasReady": ("True", "AllReplicasReady", "1 of 1 ready"),
            },
            False,
            {"total": 1, "ready": 1},
        ),
    ],
)
def test_a_deployment_says_what_modelplane_says(
    why: str,
    manifest: Manifest,
    world: list[Manifest],
    observed: dict[str, Manifest],
    told: Told,
    ready: bool,
    counts: Any,
) -> None:
    desired = settle(manifest, observed, world)
    assert conditions(desired) == told, why
    assert composite_is_ready(desired) is ready, why
    assert desired.status.get("replicas") == counts, why


def test_a_selector_that_is_no_cel_is_named() -> None:
    desired = settle(deployment(engines=[engine("device.capacity[")]), {}, [cluster()])
    (status, reason, message) = conditions(desired)["ReplicasScheduled"]
    assert (status, reason) == ("False", "InvalidNodeSelector")
    assert message.startswith("Invalid nodeSelector CEL expression: ")
    assert desired.warnings == [message]
    assert not desired.resources


@pytest.mark.parametrize(("ready", "keys"), [(False, {"replica-wl-0"}), (True, {"replica-wl-0", "endpoint-wl-0"})])
def test_an_endpoint_exists_only_while_its_replica_is_ready(ready: bool, keys: set[str]) -> None:
    desired = settle(deployment(), {"replica-wl-0": replica("wl", 0, ready=ready)}, [cluster()])
    assert desired.resources.keys() == keys


def test_a_replica_keeps_no_endpoint_when_its_cluster_loses_its_address() -> None:
    observed = {"replica-wl-0": replica("wl", 0, ready=True)}
    assert settle(deployment(), observed, [cluster(address=None)]).resources.keys() == {"replica-wl-0"}


def test_labels_of_the_template_reach_replica_and_endpoint() -> None:
    manifest = deployment()
    manifest["spec"]["template"]["metadata"] = {"labels": {"tier": "gold"}}
    desired = settle(manifest, {"replica-wl-0": replica("wl", 0, ready=True)}, [cluster()])
    assert {item["metadata"]["labels"]["tier"] for item in desired.resources.values()} == {"gold"}


def composed_replica(**spec: Any) -> Manifest:
    placed = settle(deployment(**spec), {}, [cluster()]).resources["replica-wl-0"]
    return {**placed, "metadata": {**placed["metadata"]}}


def remote(ready: bool | None, *, seen: bool = True) -> Manifest:
    status: Manifest = {"conditions": [{"type": "Ready", "status": str(bool(ready))}]}
    if seen:
        status["atProvider"] = {"manifest": {"kind": "Deployment"}}
    return {"kind": "Object", "metadata": {}, "status": status}


@pytest.mark.parametrize(
    ("why", "world", "observed", "told"),
    [
        (
            "its cluster has no provider config yet",
            [],
            {},
            {
                "ModelAccepted": ("False", "WaitingForCluster", ""),
                "ModelReady": ("False", "WaitingForModel", ""),
            },
        ),
        (
            "nothing created yet",
            [cluster()],
            {},
            {"ModelAccepted": ("False", "Deploying", ""), "ModelReady": ("False", "WaitingForModel", "")},
        ),
        (
            "created, not serving: also what a pod that crashes for ever looks like",
            [cluster()],
            {"model-serving-engine": remote(ready=False)},
            {"ModelAccepted": ("True", "Accepted", ""), "ModelReady": ("False", "ModelStarting", "")},
        ),
        (
            "serving, whatever the picker does",
            [cluster()],
            {"model-serving-engine": remote(ready=True), "epp": remote(ready=False)},
            {"ModelAccepted": ("True", "Accepted", ""), "ModelReady": ("True", "Serving", "")},
        ),
    ],
)
def test_a_replica_says_how_far_it_is(
    why: str, world: list[Manifest], observed: dict[str, Manifest], told: Told
) -> None:
    assert conditions(settle(composed_replica(), observed, world)) == told, why


def test_a_replica_is_ready_only_when_all_its_objects_are_there() -> None:
    keys = settle(composed_replica(), {}, [cluster()]).resources.keys()
    observed = {key: remote(ready=key == "model-serving-engine") for key in keys}
    assert composite_is_ready(settle(composed_replica(), observed, [cluster()]))
    del observed["inference-pool"]
    assert not composite_is_ready(settle(composed_replica(), observed, [cluster()]))


def test_a_shape_that_is_not_played_says_so() -> None:
    manifest = composed_replica(serving={"mode": "PrefillDecode"})
    desired = settle(manifest, {}, [cluster()])
    assert not desired.resources
    assert not composite_is_ready(desired)
    assert "Standalone" in conditions(desired)["ModelAccepted"][2]


@pytest.mark.parametrize(
    ("args", "block"),
    [([], 16), (["--block-size=32"], 32), (["--block-size", "64"], 64), (["--page-size=8"], 8), (["--block-size"], 16)],
)
def test_the_picker_hashes_prefixes_by_the_engines_block_size(args: list[str], block: int) -> None:
    desired = settle(composed_replica(engines=[engine(args=args)]), {}, [cluster()])
    manifest = desired.resources["epp-config"]["spec"]["forProvider"]["manifest"]
    assert f"blockSizeTokens: {block}\n" in manifest["data"]["epp-config.yaml"]


def test_what_a_user_adds_to_a_member_reaches_the_pod() -> None:
    changed = engine(command=["vllm"], env=[{"name": "A", "value": "b"}])
    changed["members"][0]["template"]["metadata"] = {"labels": {"team": "x"}, "annotations": {"note": "y"}}
    changed["members"][0]["template"]["spec"]["imagePullSecrets"] = [{"name": "pull"}]
    desired = settle(composed_replica(engines=[changed]), {}, [cluster()])
    template = desired.resources["model-serving-engine"]["spec"]["forProvider"]["manifest"]["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "x"
    assert template["metadata"]["labels"]["modelplane.ai/serving"] == NAME
    assert template["metadata"]["annotations"] == {"note": "y"}
    assert template["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    container = template["spec"]["containers"][0]
    assert (container["command"], container["env"]) == (["vllm"], [{"name": "A", "value": "b"}])


def endpoint(url: str = "http://198.51.100.7/ml-team/r/v1", *, backend: str | None = None, name: str = "e") -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelEndpoint",
        "metadata": {"name": name, "namespace": "ml-team", "labels": {"modelplane.ai/deployment": "md"}},
        "spec": {"url": url, "rewritePath": "/ml-team/r/"},
        "status": {"routing": {"backendName": backend}} if backend else {},
    }


SERVICE = {"kind": "Service", "metadata": {"name": "md-0123"}}


@pytest.mark.parametrize(
    ("url", "address_type", "address", "port"),
    [
        ("http://198.51.100.7/ml-team/r/v1", "IPv4", "198.51.100.7", 80),
        ("http://workload-gateway.localhost/ml-team/r/v1", "FQDN", "workload-gateway.localhost", 80),
        ("https://[2001:db8::1]:8443/v1", "IPv6", "2001:db8::1", 8443),
        ("https://api.example.com/v1", "FQDN", "api.example.com", 443),
    ],
)
def test_an_endpoint_slice_names_the_host_of_the_url(url: str, address_type: str, address: str, port: int) -> None:
    desired = settle(endpoint(url), {"service": SERVICE}, [])
    slice_ = desired.resources["endpointslice"]
    assert (slice_["addressType"], slice_["endpoints"][0]["addresses"]) == (address_type, [address])
    assert {slice_["ports"][0]["port"], desired.resources["service"]["spec"]["ports"][0]["port"]} == {port}
    assert desired.status == {"routing": {"backendName": "md-0123"}}


@pytest.mark.parametrize("url", ["ftp://host/x", "not a url", "http://host:port/"])
def test_an_endpoint_without_a_usable_url_says_so(url: str) -> None:
    desired = settle(endpoint(url), {}, [])
    assert conditions(desired) == {"RoutingReady": ("False", "InvalidURL", "")}
    assert (desired.resources, composite_is_ready(desired)) == ({}, False)


def test_a_slice_waits_for_the_name_of_its_service() -> None:
    desired = settle(endpoint(), {}, [])
    assert desired.resources.keys() == {"service"}
    assert conditions(desired) == {"RoutingReady": ("False", "WaitingForBackend", "")}


GATEWAY = {
    "apiVersion": API_VERSION,
    "kind": "InferenceGateway",
    "metadata": {"name": "default"},
    "status": {"address": "203.0.113.20"},
}
MODEL_SERVICE = {
    "apiVersion": API_VERSION,
    "kind": "ModelService",
    "metadata": {"name": "ms", "namespace": "ml-team"},
    "spec": {"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": "md"}}, "weight": 3}]},
}


def test_a_service_without_endpoints_is_ready_all_the_same_and_composes_nothing() -> None:
    desired = settle(MODEL_SERVICE, {}, [GATEWAY])
    assert composite_is_ready(desired)
    assert (desired.resources, desired.status) == ({}, {})
    message = "No ModelEndpoints matched the configured selectors"
    assert conditions(desired) == {"EndpointsResolved": ("False", "NoEndpoints", message)}


def test_a_service_publishes_its_address_before_anything_serves() -> None:
    desired = settle(MODEL_SERVICE, {}, [GATEWAY, endpoint(), endpoint(name="f", backend="b")])
    assert desired.status == {"address": "http://203.0.113.20/ml-team/ms"}
    assert conditions(desired) == {
        "EndpointsResolved": ("True", "Resolved", "Matched 2 endpoint(s); 1 waiting for Backend"),
        "RoutingReady": ("False", "Configuring", ""),
    }
    assert not composite_is_ready(desired)


def test_the_sandbox_puts_its_port_into_the_address() -> None:
    desired = settle(MODEL_SERVICE, {}, [GATEWAY, endpoint(backend="b")], Settings(public_port=18020))
    assert desired.status == {"address": "http://203.0.113.20:18020/ml-team/ms"}


def test_routes_carry_weights_and_each_endpoint_once() -> None:
    twice = {**MODEL_SERVICE, "spec": {"endpoints": MODEL_SERVICE["spec"]["endpoints"] * 2}}  # type: ignore[index]
    desired: Desired = settle(twice, {}, [GATEWAY, endpoint(backend="b")])
    (rule,) = desired.resources["httproute"]["spec"]["rules"]
    assert [(ref["name"], ref["weight"], ref["port"]) for ref in rule["backendRefs"]] == [("b", 3, 80)]
