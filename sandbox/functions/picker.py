"""What routes to a replica's engines on the workload cluster: HTTPRoute, InferencePool and llm-d's endpoint picker."""

from __future__ import annotations

import hashlib

import yaml

from modelplane.names import ENGINE_NAMESPACE, SERVING_LABEL, SYSTEM_NAMESPACE, picker_name, pool_name, route_path
from sandbox.functions.model import Desired, Manifest
from sandbox.functions.objects import AVAILABLE, remote
from sandbox.functions.workload import ENGINE_PORT

# The picker that Modelplane v0.3.1 pins.
PICKER_IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"
POOL_GROUP = "inference.networking.k8s.io"
OBJECTIVE_GROUP = "inference.networking.x-k8s.io"
GRPC_PORT = 9002
HEALTH_PORT = 9003
CONFIG_FILE = "epp-config.yaml"
# vLLM's and SGLang's names for the size of a KV block, and the size without them.
BLOCK_FLAGS = ("--block-size", "--page-size")
DEFAULT_BLOCK = 16


def compose_picker(
    desired: Desired, namespace: str, replica: str, engines: list[Manifest], provider_config: str
) -> None:
    """Add the routing surface of a replica of a deployment in `namespace`."""
    name, pool = picker_name(replica), pool_name(replica)
    meta = {"name": name, "namespace": ENGINE_NAMESPACE}
    config = picker_config(_block_size(engines))
    manifests: dict[str, Manifest] = {
        "model-route": _route(namespace, replica, pool),
        "inference-pool": _pool(replica, pool, name),
        "epp-serviceaccount": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        "epp-role": _role(meta),
        "epp-rolebinding": _role_binding(meta),
        "epp-config": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {CONFIG_FILE: config}},
        "epp-service": _service(meta),
        "epp": _deployment(meta, pool, config),
    }
    for key, manifest in manifests.items():
        desired.add(key, remote(manifest, provider_config, ready_when=AVAILABLE if key == "epp" else None))


def picker_config(block_size: int) -> str:
    """The picker's configuration: the engine with the longest cached prefix, then the shortest queue."""
    prefix = {
        "autoTune": False,
        "blockSizeTokens": block_size,
        "maxPrefixBlocksToMatch": 256,
        "lruCapacityPerServer": 31250,
    }
    config = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            {"type": "approx-prefix-cache-producer", "parameters": prefix},
            {"type": "prefix-cache-scorer"},
            {"type": "queue-scorer"},
            {"type": "max-score-picker"},
        ],
        "schedulingProfiles": [
            {
                "name": "default",
                "plugins": [
                    {"pluginRef": "max-score-picker"},
                    {"pluginRef": "prefix-cache-scorer", "weight": 2},
                    {"pluginRef": "queue-scorer", "weight": 1},
                ],
            },
        ],
    }
    return yaml.safe_dump(config, sort_keys=False)


def _block_size(engines: list[Manifest]) -> int:
    """The KV block size that the engines' flags name, in both spellings of a flag."""
    for engine in engines:
        args = engine["members"][0]["template"]["spec"]["containers"][0].get("args", [])
        for index, arg in enumerate(args):
            flag, equals, value = str(arg).partition("=")
            if flag in BLOCK_FLAGS:
                text = value if equals else str(args[index + 1]) if index + 1 < len(args) else ""
                if text.isdigit():
                    return int(text)
    return DEFAULT_BLOCK


def _route(namespace: str, replica: str, pool: str) -> Manifest:
    rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": replica, "namespace": ENGINE_NAMESPACE},
        "spec": {
            "parentRefs": [{"name": "inference-gateway", "namespace": SYSTEM_NAMESPACE}],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": route_path(namespace, replica)}}],
                    "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
                    "backendRefs": [{"group": POOL_GROUP, "kind": "InferencePool", "name": pool}],
                    "timeouts": {"request": "0s"},
                }
            ],
        },
    }


def _pool(replica: str, pool: str, picker: str) -> Manifest:
    return {
        "apiVersion": f"{POOL_GROUP}/v1",
        "kind": "InferencePool",
        "metadata": {"name": pool, "namespace": ENGINE_NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {SERVING_LABEL: replica}},
            "targetPorts": [{"number": ENGINE_PORT}],
            "endpointPickerRef": {"name": picker, "port": {"number": GRPC_PORT}, "failureMode": "FailOpen"},
        },
    }


def _role(meta: Manifest) -> Manifest:
    verbs = ["get", "watch", "list"]
    readable = [("", "pods"), (POOL_GROUP, "inferencepools"), (OBJECTIVE_GROUP, "inferenceobjectives")]
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)} for group, resource in readable]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules}


def _role_binding(meta: Manifest) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": meta["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": meta["name"], "namespace": meta["namespace"]}],
    }


def _service(meta: Manifest) -> Manifest:
    port = {"name": "grpc-ext-proc", "port": GRPC_PORT, "targetPort": GRPC_PORT, "appProtocol": "http2"}
    spec = {"selector": {"app": meta["name"]}, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _deployment(meta: Manifest, pool: str, config: str) -> Manifest:
    name = meta["name"]
    container = {
        "name": "epp",
        "image": PICKER_IMAGE,
        "args": [
            f"--pool-name={pool}",
            f"--pool-namespace={ENGINE_NAMESPACE}",
            f"--pool-group={POOL_GROUP}",
            f"--config-file=/config/{CONFIG_FILE}",
            f"--grpc-port={GRPC_PORT}",
        ],
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT},
            {"name": "grpc-health", "containerPort": HEALTH_PORT},
        ],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    "labels": {"app": name},
                    # A change of the configuration changes the pod template, so that the picker restarts with it.
                    "annotations": {"modelplane.ai/epp-config-checksum": hashlib.sha256(config.encode()).hexdigest()},
                },
                "spec": {
                    "serviceAccountName": name,
                    "containers": [container],
                    "volumes": [{"name": "config", "configMap": {"name": name}}],
                },
            },
        },
    }
