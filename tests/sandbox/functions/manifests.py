"""Small manifests of our own for the functions' cases."""

from __future__ import annotations

from typing import Any

from sandbox.functions.model import API_VERSION, Manifest

MEMORY_20 = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0'
L4 = {
    "name": "gpu",
    "driver": "gpu.nvidia.com",
    "claim": "DRA",
    "deviceClassName": "gpu.nvidia.com",
    "count": 1,
    "attributes": {"architecture": {"string": "Ada Lovelace"}},
    "capacity": {"memory": {"value": "23034Mi"}},
}


def cluster(
    name: str = "wl",
    *,
    nodes: int = 1,
    ready: bool = True,
    address: str | None = "198.51.100.7",
    devices: list[Manifest] | None = None,
    labels: dict[str, str] | None = None,
    taints: list[Manifest] | None = None,
) -> Manifest:
    status: Manifest = {
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "gpuPools": [{"name": "gpu", "nodes": nodes, "devices": devices or [L4]}],
        "providerConfigRef": {"name": f"{name}-config"},
    }
    if address:
        status["gateway"] = {"address": address}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceCluster",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or []},
        "status": status,
    }


def engine(cel: str = MEMORY_20, *, copies: int = 1, count: int = 1, **container: Any) -> Manifest:
    return {
        "name": "engine",
        "copies": copies,
        "members": [
            {
                "role": "Standalone",
                "nodeSelector": {"devices": [{"name": "gpu", "count": count, "selectors": [{"cel": cel}]}]},
                "template": {
                    "spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0", **container}]}
                },
            }
        ],
    }


def deployment(replicas: int = 1, name: str = "md", **spec: Any) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "ml-team"},
        "spec": {"replicas": replicas, "template": {"spec": {"engines": [engine()], **spec}}},
    }


def replica(cluster_name: str, index: int, *, of: str = "md", pool: str = "gpu", ready: bool = False) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelReplica",
        "metadata": {
            "name": f"{of}-{cluster_name}-{index}",
            "namespace": "ml-team",
            "labels": {
                "modelplane.ai/deployment": of,
                "modelplane.ai/cluster": cluster_name,
                "modelplane.ai/replica-index": str(index),
            },
        },
        "spec": {
            "clusterName": cluster_name,
            "engines": [
                {
                    "name": "engine",
                    "copies": 1,
                    "members": [{"role": "Standalone", "nodePoolName": pool, "template": {}}],
                }
            ],
        },
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
