"""Objects that Modelplane v0.3.1 accepts: the start of every table of tests on manifests (refused.py changes them)."""

from __future__ import annotations

import copy
import re
from typing import Any

Document = dict[str, Any]
DELETE = object()

SELECTOR = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0\n'


def changed(document: Document, changes: dict[str, Any]) -> Document:
    """A copy with values set (or DELETE'd) at paths such as "spec.engines[0].name"; missing parents are made."""
    result = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = [int(p) if p.isdigit() else p for p in re.findall(r"[^.\[\]]+", path)]
        node: Any = result
        for part in parents:
            node = node[part] if isinstance(node, list) else node.setdefault(part, {})
        if value is DELETE:
            del node[last]
        elif isinstance(node, list) and last == len(node):
            node.append(value)
        else:
            node[last] = value
    return result


def _object(kind: str, name: str, spec: Document, *, namespace: str | None = None, group: str = "") -> Document:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{group}modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def member(role: str, **more: Any) -> Document:
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model=Qwen/Qwen3-8B"]}
    return {"role": role, "template": {"spec": {"containers": [container]}}, **more}


def gpu(count: int = 1) -> Document:
    return {"devices": [{"name": "gpu", "count": count, "selectors": [{"cel": SELECTOR}]}]}


DEPLOYMENT = _object(
    "ModelDeployment",
    "qwen3-8b-spec",
    {
        "replicas": 1,
        "template": {
            "spec": {"engines": [{"name": "qwen3-8b-spec", "members": [member("Standalone", nodeSelector=gpu())]}]}
        },
    },
    namespace="ml-team",
)
SPEC = "spec.template.spec"
ENGINE = f"{SPEC}.engines[0]"
MEMBER = f"{ENGINE}.members[0]"
POD = f"{MEMBER}.template"

SPLIT = changed(
    DEPLOYMENT,
    {
        f"{SPEC}.serving": {"mode": "PrefillDecode"},
        f"{SPEC}.engines": [
            {"name": "p", "phase": "Prefill", "members": [member("Standalone", nodeSelector=gpu())]},
            {"name": "d", "phase": "Decode", "members": [member("Standalone", nodeSelector=gpu())]},
        ],
    },
)
GANG = changed(
    DEPLOYMENT,
    {f"{ENGINE}.members": [member("Leader"), member("Worker", worker={"nodes": 3}, nodeSelector=gpu(8))]},
)
FULL = changed(
    DEPLOYMENT,
    {
        "metadata.labels": {"team": "ml"},
        "spec.template.metadata": {"labels": {"example.com/tier": "prod", "empty": ""}},
        f"{SPEC}.clusterSelector": {"matchLabels": {"modelplane.ai/region": "us"}},
        f"{SPEC}.modelCacheRef": {"name": "weights"},
        f"{SPEC}.tolerations": [
            {"key": "drain", "value": "yes", "effect": "NoExecute"},
            {"operator": "Exists"},
        ],
        f"{ENGINE}.copies": 2,
        f"{POD}.metadata": {"labels": {"app": "x"}, "annotations": {"example.com/note": "any text, even\nthis"}},
        f"{POD}.spec.imagePullSecrets": [{"name": "registry"}],
        f"{POD}.spec.containers[0].command": ["vllm", "serve"],
        f"{POD}.spec.containers[0].env": [
            {"name": "A", "value": "1"},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token", "optional": True}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}}},
        ],
    },
)
REPLICA = _object(
    "ModelReplica",
    "qwen3-8b-spec-54ef8",
    {
        "clusterName": "gke-l4",
        "engines": [
            {
                "name": "qwen3-8b-spec",
                "members": [
                    member(
                        "Standalone",
                        nodePoolName="gpu",
                        deviceRequests=[{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}],
                    )
                ],
            }
        ],
    },
    namespace="ml-team",
)
SERVICE = _object(
    "ModelService",
    "qwen3-8b-spec",
    {"endpoints": [{"weight": 1, "selector": {"matchLabels": {"modelplane.ai/deployment": "qwen3-8b-spec"}}}]},
    namespace="ml-team",
)
ENDPOINT = _object(
    "ModelEndpoint", "external", {"url": "http://203.0.113.9/v1", "rewritePath": "/"}, namespace="ml-team"
)
CACHE = _object(
    "ModelCache",
    "weights",
    {
        "source": "HuggingFace",
        "huggingFace": {"repo": "Qwen/Qwen3-8B", "sizeGiB": 40, "authSecret": {"name": "hf"}},
    },
    namespace="ml-team",
)
GATEWAY = _object("InferenceGateway", "default", {"backend": "Traefik", "traefik": {"version": "40.2.0"}})
CLASS = _object(
    "InferenceClass",
    "gke-l4-1x-g2",
    {
        "provisioning": {
            "provider": "GKE",
            "gke": {"machineType": "g2-standard-8", "accelerator": {"type": "nvidia-l4", "count": 1}},
        },
        "devices": [
            {
                "name": "gpu",
                "driver": "gpu.nvidia.com",
                "deviceClassName": "gpu.nvidia.com",
                "attributes": {
                    "architecture": {"string": "Ada Lovelace"},
                    "cudaComputeCapability": {"version": "8.9.0"},
                    "ecc": {"bool": False},
                    "index": {"int": 0},
                },
                "capacity": {"memory": {"value": "23034Mi"}},
            },
            {"name": "ib", "driver": "example.com", "claim": "Synthetic", "count": 8},
        ],
    },
)
CLUSTER = _object(
    "InferenceCluster",
    "wl",
    {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "wl-kubeconfig"}}},
        "nodePools": [{"name": "gpu", "className": "gke-l4-1x-g2", "nodeCount": 1}],
    },
)
CLOUD_CLUSTER = changed(
    CLUSTER,
    {
        "spec.cluster": {"source": "EKS", "eks": {"region": "us-west-2", "credentials": {"name": "default"}}},
        "spec.taints": [{"key": "drain", "effect": "NoSchedule"}, {"key": "drain", "effect": "NoExecute"}],
        "spec.nodePools[0]": {
            "name": "gpu",
            "className": "p5",
            "minNodeCount": 0,
            "maxNodeCount": 4,
            "zones": ["us-west-2a"],
            "fabric": {"type": "EFA"},
            "capacityBlock": {"capacityReservationId": "cr-0123abc"},
        },
    },
)
STACK = _object(
    "ServingStack",
    "wl-serving-stack-8a155",
    {
        "secrets": [{"type": "Kubeconfig", "name": "wl-kubeconfig", "key": "kubeconfig"}],
        "nvidiaDriverRoot": "/home/kubernetes/bin/nvidia",
        "versions": {"nvidiaDraDriver": "0.4.0"},
        "gateway": {"className": "envoy", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    },
    namespace="modelplane-system",
    group="infrastructure.",
)

ACCEPTED: dict[str, Document] = {
    "the seed's deployment": DEPLOYMENT,
    "every optional field of a deployment": FULL,
    "prefill and decode": SPLIT,
    "a gang": GANG,
    "an empty serving block is unified": changed(DEPLOYMENT, {f"{SPEC}.serving": {}}),
    "a replica": REPLICA,
    "a service": SERVICE,
    "an endpoint": ENDPOINT,
    "a cache": CACHE,
    "a gateway": GATEWAY,
    "a gateway with MetalLB": changed(
        GATEWAY,
        {"spec.traefik.loadBalancer": "MetalLB", "spec.traefik.metallb": {"addressPool": "172.18.255.200-250"}},
    ),
    "a class": CLASS,
    "an existing cluster": CLUSTER,
    "a cloud cluster": CLOUD_CLUSTER,
    "an empty nebius block": changed(CLUSTER, {"spec.cluster": {"source": "Nebius", "nebius": {}}}),
    "a serving stack": STACK,
}
