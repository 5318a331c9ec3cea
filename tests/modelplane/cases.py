"""Objects that Modelplane v0.3.1 accepts, and changes to them that it refuses: one table for the types and for the
API server, so that both refuse the same objects."""

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


def _gpu(count: int = 1) -> Document:
    return {"devices": [{"name": "gpu", "count": count, "selectors": [{"cel": SELECTOR}]}]}


DEPLOYMENT = _object(
    "ModelDeployment",
    "qwen3-8b-spec",
    {
        "replicas": 1,
        "template": {
            "spec": {"engines": [{"name": "qwen3-8b-spec", "members": [member("Standalone", nodeSelector=_gpu())]}]}
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
            {"name": "p", "phase": "Prefill", "members": [member("Standalone", nodeSelector=_gpu())]},
            {"name": "d", "phase": "Decode", "members": [member("Standalone", nodeSelector=_gpu())]},
        ],
    },
)
GANG = changed(
    DEPLOYMENT,
    {f"{ENGINE}.members": [member("Leader"), member("Worker", worker={"nodes": 3}, nodeSelector=_gpu(8))]},
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

# name -> (object, changes, path of the finding, part of its reason)
REFUSED: dict[str, tuple[Document, dict[str, Any], str, str]] = {
    "an unknown key": (DEPLOYMENT, {f"{POD}.spec.volumes": []}, f"{POD}.spec.volumes", "unknown key"),
    "a snake_case key": (
        DEPLOYMENT,
        {f"{MEMBER}.nodeSelector": DELETE, f"{MEMBER}.node_selector": _gpu()},
        f"{MEMBER}.node_selector",
        "did you mean nodeSelector?",
    ),
    "no replicas": (DEPLOYMENT, {"spec.replicas": DELETE}, "spec.replicas", "is required"),
    "zero replicas": (DEPLOYMENT, {"spec.replicas": 0}, "spec.replicas", "greater than or equal to 1"),
    "eleven replicas": (DEPLOYMENT, {"spec.replicas": 11}, "spec.replicas", "less than or equal to 10"),
    "replicas as text": (DEPLOYMENT, {"spec.replicas": "1"}, "spec.replicas", "must be an integer"),
    "no engines": (DEPLOYMENT, {f"{SPEC}.engines": []}, f"{SPEC}.engines", "at least 1 item"),
    "two engines of one name": (
        DEPLOYMENT,
        {f"{SPEC}.engines[1]": DEPLOYMENT["spec"]["template"]["spec"]["engines"][0]},
        f"{SPEC}.engines",
        "two items with name qwen3-8b-spec",
    ),
    "an engine name of 64 characters": (DEPLOYMENT, {f"{ENGINE}.name": "a" * 64}, f"{ENGINE}.name", "at most 63"),
    "sixty-five copies": (DEPLOYMENT, {f"{ENGINE}.copies": 65}, f"{ENGINE}.copies", "less than or equal to 64"),
    "a phase without PrefillDecode": (DEPLOYMENT, {f"{ENGINE}.phase": "Decode"}, SPEC, "phase only when"),
    "one engine for PrefillDecode": (DEPLOYMENT, {f"{SPEC}.serving": {"mode": "PrefillDecode"}}, SPEC, "two engines"),
    "two prefill engines": (SPLIT, {f"{SPEC}.engines[1].phase": "Prefill"}, SPEC, "exactly one engine with phase"),
    "a lone leader": (DEPLOYMENT, {f"{MEMBER}.role": "Leader"}, ENGINE, "one Standalone member, or one Leader"),
    "two leaders": (
        GANG,
        {f"{ENGINE}.members[1]": member("Leader", nodeSelector=_gpu())},
        ENGINE,
        "one Standalone member, or one Leader",
    ),
    "a standalone beside a worker": (GANG, {f"{MEMBER}.role": "Standalone"}, ENGINE, "one Standalone member"),
    "worker settings on a standalone": (DEPLOYMENT, {f"{MEMBER}.worker": {"nodes": 1}}, MEMBER, "role Worker"),
    "an engine without devices": (DEPLOYMENT, {f"{MEMBER}.nodeSelector": DELETE}, ENGINE, "requests devices"),
    "a request without selectors": (
        DEPLOYMENT,
        {f"{MEMBER}.nodeSelector.devices[0].selectors": []},
        f"{MEMBER}.nodeSelector.devices[0].selectors",
        "at least 1 item",
    ),
    "an empty selector": (
        DEPLOYMENT,
        {f"{MEMBER}.nodeSelector.devices[0].selectors": [{}]},
        f"{MEMBER}.nodeSelector.devices[0].selectors[0].cel",
        "is required",
    ),
    "two containers": (
        DEPLOYMENT,
        {f"{POD}.spec.containers[1]": {"name": "sidecar", "image": "x"}},
        f"{POD}.spec.containers",
        "at most 1 item",
    ),
    "a container of another name": (
        DEPLOYMENT,
        {f"{POD}.spec.containers[0].name": "vllm"},
        f"{POD}.spec",
        "named engine",
    ),
    "a reserved pod label": (
        DEPLOYMENT,
        {f"{POD}.metadata.labels": {"modelplane.ai/x": "1"}},
        f"{POD}.metadata",
        "reserved",
    ),
    "a malformed label key": (DEPLOYMENT, {f"{POD}.metadata.labels": {"-x": "1"}}, f"{POD}.metadata", "label key"),
    "a malformed label value": (DEPLOYMENT, {f"{POD}.metadata.labels": {"x": "a b"}}, f"{POD}.metadata", "label value"),
    "a malformed annotation key": (
        DEPLOYMENT,
        {f"{POD}.metadata.annotations": {"x/": "1"}},
        f"{POD}.metadata",
        "annotation key",
    ),
    "a label prefix of 254 characters": (
        DEPLOYMENT,
        {"spec.template.metadata": {"labels": {"a" * 254 + "/x": "1"}}},
        "spec.template.metadata",
        "longer than 253",
    ),
    "annotations on the template": (
        DEPLOYMENT,
        {"spec.template.metadata": {"annotations": {"x": "1"}}},
        "spec.template.metadata.annotations",
        "unknown key",
    ),
    "thirty-three labels": (
        DEPLOYMENT,
        {"spec.template.metadata": {"labels": {f"l{i}": "1" for i in range(33)}}},
        "spec.template.metadata.labels",
        "at most 32 items",
    ),
    "an Equal toleration without key": (
        DEPLOYMENT,
        {f"{SPEC}.tolerations": [{}]},
        f"{SPEC}.tolerations[0]",
        "needs a key",
    ),
    "an Exists toleration with value": (
        DEPLOYMENT,
        {f"{SPEC}.tolerations": [{"operator": "Exists", "key": "a", "value": "b"}]},
        f"{SPEC}.tolerations[0]",
        "may not have a value",
    ),
    "a replica without device requests": (
        REPLICA,
        {"spec.engines[0].members[0].deviceRequests": DELETE},
        "spec.engines[0]",
        "deviceRequests",
    ),
    "a service without endpoints": (SERVICE, {"spec.endpoints": []}, "spec.endpoints", "at least 1 item"),
    "a weight of zero": (SERVICE, {"spec.endpoints[0].weight": 0}, "spec.endpoints[0].weight", "greater than"),
    "a service without labels": (
        SERVICE,
        {"spec.endpoints[0].selector": {}},
        "spec.endpoints[0].selector.matchLabels",
        "is required",
    ),
    "an endpoint without url": (ENDPOINT, {"spec.url": ""}, "spec.url", "at least 1 character"),
    "a cache without its source": (CACHE, {"spec.huggingFace": DELETE}, "spec", "huggingFace is required"),
    "a gateway without its backend": (GATEWAY, {"spec.traefik": DELETE}, "spec", "traefik is required"),
    "MetalLB without addresses": (
        GATEWAY,
        {"spec.traefik.loadBalancer": "MetalLB"},
        "spec.traefik",
        "metallb is required",
    ),
    "a class without the provider's block": (
        CLASS,
        {"spec.provisioning.provider": "EKS"},
        "spec.provisioning",
        "eks is required",
    ),
    "a claimed device without DeviceClass": (
        CLASS,
        {"spec.devices[0].deviceClassName": DELETE},
        "spec.devices[0]",
        "deviceClassName is required",
    ),
    "an attribute of two types": (
        CLASS,
        {"spec.devices[0].attributes.index": {"int": 0, "string": "0"}},
        "spec.devices[0].attributes.index",
        "exactly one of",
    ),
    "an attribute of no type": (
        CLASS,
        {"spec.devices[0].attributes.index": {}},
        "spec.devices[0].attributes.index",
        "exactly one of",
    ),
    "a cluster without its source's block": (
        CLUSTER,
        {"spec.cluster.source": "GKE"},
        "spec.cluster",
        "gke is required",
    ),
    "a GKE project": (
        CLUSTER,
        {"spec.cluster": {"source": "GKE", "gke": {"region": "us-central1", "project": "my-project"}}},
        "spec.cluster.gke.project",
        "unknown key",
    ),
    "a fabric as text": (CLUSTER, {"spec.nodePools[0].fabric": "EFA"}, "spec.nodePools[0].fabric", "must be a mapping"),
    "a pool name of 41 characters": (
        CLUSTER,
        {"spec.nodePools[0].name": "a" * 41},
        "spec.nodePools[0].name",
        "at most 40",
    ),
    "a fabric that is not used": (
        CLUSTER,
        {"spec.nodePools[0].fabric": {"type": "EFA", "infiniband": {"fabric": "f"}}},
        "spec.nodePools[0].fabric",
        "when type is InfiniBand",
    ),
    "an unnamed Nebius fabric": (
        CLUSTER,
        {"spec.cluster": {"source": "Nebius", "nebius": {}}, "spec.nodePools[0].fabric": {"type": "InfiniBand"}},
        "spec",
        "on Nebius",
    ),
    "a malformed reservation": (
        CLUSTER,
        {"spec.nodePools[0].capacityBlock": {"capacityReservationId": "cr-XYZ"}},
        "spec.nodePools[0].capacityBlock.capacityReservationId",
        "pattern",
    ),
    "one taint twice": (
        CLOUD_CLUSTER,
        {"spec.taints[1].effect": "NoSchedule"},
        "spec.taints",
        "two items with key drain, effect NoSchedule",
    ),
    "a stack without kubeconfig": (
        STACK,
        {"spec.secrets[0].type": "GoogleApplicationCredentials"},
        "spec",
        "one of type Kubeconfig",
    ),
}
