"""Kubernetes objects for the gates' tables, as API servers return them."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def node(name: str, *taints: str, **labels: str) -> Manifest:
    """taints: `key:effect`."""
    found = [{"key": taint.split(":")[0], "effect": taint.split(":")[1]} for taint in taints]
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"taints": found} if found else {}}


def labelled(manifest: Manifest, **labels: str) -> Manifest:
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "labels": {**manifest["metadata"].get("labels", {}), **labels}},
    }


GPU = labelled(
    node("gpu-1", "nvidia.com/gpu:NoSchedule"), **{"modelplane.ai/pool": "gpu", "nvidia.com/gpu.present": "true"}
)
GPU["status"] = {"nodeInfo": {"kubeletVersion": "v1.35.2"}}
SYSTEM = node("system-1")


def condition(type_: str, status: str, reason: str = "", message: str = "", **more: Any) -> Manifest:
    return {"type": type_, "status": status, "reason": reason, "message": message, **more}


def pod(name: str, phase: str = "Running", *, conditions: tuple[Manifest, ...] = (), **container: Any) -> Manifest:
    """container: fields of the status of its container `engine`; none without any."""
    status: Manifest = {"phase": phase, "conditions": list(conditions)}
    if container:
        status["containerStatuses"] = [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0", **container}]
    return {"metadata": {"name": name, "labels": {"modelplane.ai/serving": "m-11111"}}, "status": status}


def waiting(reason: str, message: str = "") -> Manifest:
    return {"waiting": {"reason": reason, "message": message}}


def event(name: str, reason: str, message: str, time: str = "2026-11-30T00:00:00Z", count: int = 1) -> Manifest:
    return {
        "metadata": {"name": f"{name}.{reason}.{time}", "creationTimestamp": time},
        "involvedObject": {"name": name},
        "reason": reason,
        "message": message,
        "count": count,
        "lastTimestamp": time,
    }


def device(name: str = "gpu-0", memory: str = "23034Mi", product: str = "NVIDIA L4") -> Manifest:
    attributes = {"type": {"string": "gpu"}, "productName": {"string": product}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def resource_slice(node_name: str, *devices: Manifest) -> Manifest:
    spec = {"driver": "gpu.nvidia.com", "nodeName": node_name, "pool": {"name": node_name}, "devices": list(devices)}
    return {"metadata": {"name": f"{node_name}-slice"}, "spec": spec}
