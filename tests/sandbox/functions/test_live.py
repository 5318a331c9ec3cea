"""The seed's deployment through real Crossplane, provider-kubernetes and schedulers, from nothing to nothing.

The tests of this file follow one another: each goes on where the one before has stopped.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
import yaml

from sandbox import crossplane, supervisor
from sandbox.functions.model import Manifest
from sandbox.processes import marked, records
from tests.sandbox.functions.conftest import Pair
from tests.sandbox.functions.golden import asked, children, load, needs_golden, one
from tests.sandbox.kubectl import eventually
from tests.sandbox.test_recovery import listening_addresses

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(900)]

PLATFORM = """
apiVersion: modelplane.ai/v1alpha1
kind: InferenceGateway
metadata: {name: default}
spec: {backend: Traefik, traefik: {version: 40.2.0}}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceClass
metadata: {name: l4-existing}
spec:
  devices:
  - name: gpu
    driver: gpu.nvidia.com
    deviceClassName: gpu.nvidia.com
    attributes: {architecture: {string: Ada Lovelace}, productName: {string: NVIDIA L4}}
    capacity: {memory: {value: 23034Mi}}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceCluster
metadata: {name: wl}
spec:
  cluster: {source: Existing, existing: {secretRef: {name: wl-kubeconfig}}}
  nodePools: [{name: gpu, className: l4-existing, nodeCount: 1}]
---
apiVersion: v1
kind: Namespace
metadata: {name: ml-team}
"""
CONFIG = '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
MODEL: list[Manifest] = [
    {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen3-8b-spec", "namespace": "ml-team"},
        "spec": {
            "replicas": 1,
            "template": {
                "spec": {
                    "engines": [
                        {
                            "name": "qwen3-8b-spec",
                            "members": [
                                {
                                    "nodeSelector": {
                                        "devices": [
                                            {
                                                "name": "gpu",
                                                "selectors": [
                                                    {
                                                        "cel": 'device.capacity["gpu.nvidia.com"].memory'
                                                        '.compareTo(quantity("20Gi")) >= 0\n'
                                                    }
                                                ],
                                            }
                                        ]
                                    },
                                    "template": {
                                        "spec": {
                                            "containers": [
                                                {
                                                    "name": "engine",
                                                    "image": "vllm/vllm-openai:v0.23.0",
                                                    "args": [
                                                        "--model=Qwen/Qwen3-8B",
                                                        "--served-model-name=qwen3-8b-spec",
                                                        "--max-model-len=16384",
                                                        "--gpu-memory-utilization=0.92",
                                                        f"--speculative-config={CONFIG}",
                                                        '--default-chat-template-kwargs={"enable_thinking": false}',
                                                    ],
                                                }
                                            ]
                                        }
                                    },
                                }
                            ],
                        }
                    ]
                }
            },
        },
    },
    {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": "qwen3-8b-spec", "namespace": "ml-team"},
        "spec": {"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": "qwen3-8b-spec"}}}]},
    },
]
REPLICA = "qwen3-8b-spec-29b20"
STACK = "wl-serving-stack-8a155"


def test_the_control_plane_looks_like_one_with_modelplane(pair: Pair) -> None:
    configuration = pair.control_plane.get("configurations.pkg.crossplane.io", "modelplane")
    assert configuration["spec"]["package"] == "xpkg.upbound.io/modelplane/modelplane:v0.3.1"
    assert {c["type"] for c in configuration["status"]["conditions"] if c["status"] == "True"} >= {
        "Installed",
        "Healthy",
    }
    served = pair.control_plane("api-resources", "--categories=modelplane", "-o", "name").split()
    assert len(served) == 8


def test_everything_listens_on_loopback_and_on_ports_of_the_layout(pair: Pair) -> None:
    pids = {
        pid for pid, name in marked(pair.layout).items() if name in ("crossplane", "provider-kubernetes", "functions")
    }
    addresses = listening_addresses(pids)
    # gRPC listens on an IPv6 socket that takes IPv4.
    assert {address.removeprefix("::ffff:") for address, _ in addresses} == {"127.0.0.1"}
    layout = pair.layout
    assert {port for _, port in addresses} == {
        layout.functions_port,
        layout.crossplane_metrics_port,
        layout.crossplane_health_port,
        layout.crossplane_webhook_port,
        layout.provider_metrics_port,
        layout.provider_health_port,
    }


def test_setting_up_twice_changes_nothing_and_a_killed_crossplane_comes_back(pair: Pair) -> None:
    assert crossplane.ensure(pair.layout) is False
    assert supervisor.up(pair.layout, crossplane.processes(pair.layout), lambda _: None) == []
    victim = records(pair.layout)["crossplane"]
    os.kill(victim.pid, signal.SIGKILL)
    eventually(lambda: not victim.running)  # the kernel may take a moment
    assert supervisor.up(pair.layout, crossplane.processes(pair.layout), lambda _: None) == ["crossplane"]


def test_a_cluster_waits_for_its_gateway_address(pair: Pair) -> None:
    kubeconfig = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "wl-kubeconfig", "namespace": "modelplane-system"},
            "stringData": {"kubeconfig": pair.layout.workload.kubeconfig.read_text()},
        }
    )
    pair.control_plane.apply(kubeconfig)
    pair.control_plane.apply(PLATFORM)
    eventually(lambda: pair.is_true("inferencecluster", "wl", "ClusterReady"))
    assert pair.is_true("inferencecluster", "wl") is False
    eventually(lambda: "inference-gateway" in pair.workload.run("get", "gateway", "-A").stdout, 120)
    eventually(lambda: "modelplane" in pair.control_plane.run("get", "gateway", "-A").stdout)


def test_a_deployment_is_not_placed_and_its_service_is_ready_all_the_same(pair: Pair) -> None:
    pair.control_plane.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": MODEL}))
    eventually(lambda: pair.is_true("modelservice", "qwen3-8b-spec", namespace="ml-team"))
    told = {c["type"]: c["reason"] for c in pair.status("modelservice", "qwen3-8b-spec", "ml-team")["conditions"]}
    assert told["EndpointsResolved"] == "NoEndpoints"

    def scheduled() -> str:
        listed = pair.status("modeldeployment", "qwen3-8b-spec", "ml-team").get("conditions", [])
        return next((c["message"] for c in listed if c["type"] == "ReplicasScheduled"), "")

    assert eventually(scheduled) == "0 of 1 replicas scheduled (checked 1 clusters)"


def test_the_real_scheduler_binds_the_replica_to_the_l4(pair: Pair) -> None:
    pair.play_gateways()
    pod = eventually(lambda: _engine_pod(pair), 120)
    assert pod["spec"]["nodeName"] == "gpu-1"
    (claim,) = pair.workload.get("resourceclaims")["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"], result["device"]) == ("gpu.nvidia.com", "gpu-1", "gpu-0")
    # Whatever happens to the pod, Modelplane says no more than this.

    def starting() -> bool:
        listed = pair.status("modelreplica", REPLICA, "ml-team").get("conditions", [])
        return ("ModelReady", "False", "ModelStarting") in [(c["type"], c["status"], c["reason"]) for c in listed]

    eventually(starting)
    assert pair.control_plane.names("modelendpoints", "-n", "ml-team") == []


def test_endpoint_and_route_follow_the_replica(pair: Pair) -> None:
    pod = _engine_pod(pair)["metadata"]["name"]
    pair.play_kubelet(pod)
    address = f"http://203.0.113.20:{pair.layout.control_plane_gateway_port}/ml-team/qwen3-8b-spec"
    eventually(lambda: pair.status("modelservice", "qwen3-8b-spec", "ml-team").get("address") == address)
    (route,) = eventually(lambda: pair.control_plane.names("httproutes", "-n", "ml-team"))
    assert not pair.is_true("modelservice", "qwen3-8b-spec", "RoutingReady", "ml-team")
    pair.play_traefik(route)
    eventually(lambda: pair.is_true("modelservice", "qwen3-8b-spec", "RoutingReady", "ml-team"))
    assert pair.status("modeldeployment", "qwen3-8b-spec", "ml-team")["replicas"] == {"total": 1, "ready": 1}


@needs_golden
@pytest.mark.parametrize(
    "kind",
    [
        "InferenceClass",
        "InferenceCluster",
        "InferenceGateway",
        "ServingStack",
        "ModelDeployment",
        "ModelReplica",
        "ModelEndpoint",
        "ModelService",
    ],
)
def test_what_is_stored_on_the_control_plane_is_what_modelplane_stored(pair: Pair, kind: str) -> None:
    """The composites, defaults of the XRDs included, and what they composed."""
    golden, live = load("control-plane"), _everything(pair)
    theirs, ours = one(golden, kind), one(live, kind)
    assert _plain(asked(ours)) == _plain(asked(theirs))

    expected = {key: _plain(asked(item)) for key, item in children(golden, theirs).items() if not _of_helm(item)}
    made = {key: _plain(asked(item)) for key, item in children(live, ours).items() if not _of_charts(key)}
    assert made == expected


@needs_golden
def test_what_is_stored_on_the_workload_cluster_is_what_modelplane_stored(pair: Pair) -> None:
    for theirs in load("workload"):
        if theirs["kind"] == "ResourceClaim":
            continue  # named by Kubernetes; its content is the template's
        meta = theirs["metadata"]
        group, slash, _ = theirs["apiVersion"].partition("/")
        kind = f"{theirs['kind']}.{group}" if slash else theirs["kind"]
        ours = pair.workload.get(kind, meta["name"], f"--namespace={meta.get('namespace', '')}")
        assert _plain(ours) == _plain(theirs)


def test_an_endpoint_goes_when_its_replica_is_no_longer_ready_and_comes_back(pair: Pair) -> None:
    pod = _engine_pod(pair)["metadata"]["name"]
    pair.play_kubelet(pod, ready=False)
    eventually(lambda: pair.control_plane.names("modelendpoints", "-n", "ml-team") == [])
    pair.play_kubelet(pod)
    eventually(lambda: pair.control_plane.names("modelendpoints", "-n", "ml-team"))


def test_another_driver_root_takes_the_slice_away_and_everything_stays_ready(pair: Pair) -> None:
    """The patch of one field holds, under an own field manager, and nothing but the slice tells that it was wrong."""
    patch = {
        "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
        "kind": "ServingStack",
        "metadata": {"name": STACK, "namespace": "modelplane-system"},
        "spec": {"nvidiaDriverRoot": "/home/kubernetes/bin/nvidia"},
    }
    pair.control_plane(
        "apply", "--server-side", "--force-conflicts", "--field-manager=patch", "-f", "-", stdin=json.dumps(patch)
    )
    eventually(lambda: pair.workload.names("resourceslices") == [])
    assert pair.is_true("inferencecluster", "wl")
    del patch["spec"]  # giving the field up brings the default back
    pair.control_plane(
        "apply", "--server-side", "--force-conflicts", "--field-manager=patch", "-f", "-", stdin=json.dumps(patch)
    )
    eventually(lambda: pair.workload.names("resourceslices"))


def test_a_cluster_with_replicas_cannot_be_deleted(pair: Pair) -> None:
    refused = pair.control_plane.run("delete", "inferencecluster", "wl", "--wait=false")
    assert refused.returncode != 0
    assert "ModelReplicas are scheduled to this InferenceCluster" in refused.stderr


def test_deletion_in_the_documented_order_leaves_nothing(pair: Pair) -> None:
    pair.control_plane("delete", "modeldeployment,modelservice", "--all", "-n", "ml-team")
    eventually(lambda: pair.control_plane.names("modelreplicas", "-A") == [], 120)
    # A kubelet's word that the pods have ended; their claims go with them.
    pair.workload("delete", "pods", "--all", "--force", "--grace-period=0")
    # The refused deletion of the test before is repeated by Crossplane itself once the last replica is gone.
    pair.control_plane.run("delete", "inferencecluster", "wl", "--cascade=foreground", "--timeout=1s")
    eventually(lambda: pair.control_plane.names("inferenceclusters") == [], 240)
    pair.control_plane("delete", "inferencegateway", "default", "--cascade=foreground")
    pair.control_plane("delete", "inferenceclass", "l4-existing")

    pair.wait_until_nothing_is_left(240)
    kinds = (
        "objects.kubernetes.m.crossplane.io,providerconfigs.kubernetes.m.crossplane.io,usages.protection.crossplane.io"
    )

    def left() -> list[str]:
        found = pair.control_plane("get", kinds, "-A", "-o", "name").split()
        return (
            found + pair.control_plane("get", "clusterproviderconfigs.kubernetes.m.crossplane.io", "-o", "name").split()
        )

    # What a repeated deletion takes along goes after its owner, one by one.
    eventually(lambda: left() == [], 120)
    assert "gateway.networking.k8s.io" not in pair.control_plane("get", "crds", "-o", "name")


def test_a_cluster_that_is_made_anew_is_not_cut_off(pair: Pair) -> None:
    """Crossplane stops to look at a composite with many events, by name: a deleted and remade cluster has many."""
    begun = time.monotonic()
    pair.control_plane.apply(PLATFORM)
    eventually(lambda: "inference-gateway" in pair.workload.run("get", "gateway", "-A").stdout, 120)
    assert time.monotonic() - begun < 90


def _engine_pod(pair: Pair) -> Manifest:
    """The engine's pod once it is bound, or {}."""
    pods = pair.workload.get("pods", "-l", f"modelplane.ai/serving={REPLICA}")["items"]
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    return bound[0] if bound else {}


def _everything(pair: Pair) -> list[Manifest]:
    kinds = (
        "inferenceclasses inferenceclusters inferencegateways servingstacks modeldeployments modelreplicas "
        "modelendpoints modelservices objects.kubernetes.m.crossplane.io providerconfigs.kubernetes.m.crossplane.io "
        "clusterproviderconfigs.kubernetes.m.crossplane.io usages.protection.crossplane.io "
        "clusterusages.protection.crossplane.io gatewayclasses gateways httproutes services endpointslices"
    )
    found: list[Manifest] = pair.control_plane.get(kinds.replace(" ", ","), "-A")["items"]
    return found


def _of_helm(item: Manifest) -> bool:
    if item["apiVersion"].startswith("helm."):
        return True
    sides = [item["spec"].get(side, {}) for side in ("of", "by")] if item["kind"].endswith("Usage") else []
    return any(side.get("apiVersion", "").startswith("helm.") for side in sides)


def _of_charts(key: str) -> bool:
    return key.startswith(("chart-", "usage-chart-", "usage-pc-chart-", "gaie-crd-"))


def _plain(item: Any) -> Any:
    """Without status and what servers choose: addresses, generated names, defaults of two API versions."""
    item = json.loads(json.dumps(item))
    item.pop("status", None)
    meta = item.get("metadata", {})
    for field in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"):
        meta.pop(field, None)
    spec = item.get("spec") or {}
    for field in ("clusterIP", "clusterIPs"):
        spec.pop(field, None)
    if item["kind"] in ("Usage", "ClusterUsage"):
        for side in ("of", "by"):
            if "resourceSelector" in spec.get(side, {}):
                spec[side].pop("resourceRef", None)
    labels = meta.get("labels", {})
    for label in ("crossplane.io/in-use", "kubernetes.io/service-name"):
        labels.pop(label, None)
    for rule in spec.get("rules", []) if item["kind"] == "HTTPRoute" else []:
        for backend in rule.get("backendRefs", []):
            if backend.get("port"):
                backend.pop("name")  # a generated Service name
    for empty in ("labels", "annotations"):
        if not meta.get(empty, True):
            meta.pop(empty)
    return item
