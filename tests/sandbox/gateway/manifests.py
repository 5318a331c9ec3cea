"""Manifests as Modelplane composes them, to the fields that a gateway reads."""

from __future__ import annotations

from typing import Any

from sandbox.gateway.dialects import ENVOY, GATEWAY_GROUP, TRAEFIK, Dialect
from sandbox.gateway.snapshot import Manifest, Snapshot

GATEWAYS = {"control-plane": ("traefik", "modelplane"), "workload": ("envoy", "inference-gateway")}
SYSTEM = "modelplane-system"


def gateway_class(dialect: Dialect) -> dict[str, Any]:
    return {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": GATEWAYS[dialect.cluster][0]},
        "spec": {"controllerName": dialect.controller},
    }


def gateway(dialect: Dialect) -> dict[str, Any]:
    name, gateway_name = GATEWAYS[dialect.cluster]
    listener = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    return {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "Gateway",
        "metadata": {"name": gateway_name, "namespace": SYSTEM},
        "spec": {"gatewayClassName": name, "listeners": [listener]},
    }


def route(name: str, *rules: dict[str, Any], dialect: Dialect = TRAEFIK, namespace: str = "ml-team") -> dict[str, Any]:
    parent = {"group": GATEWAY_GROUP, "kind": "Gateway", "name": GATEWAYS[dialect.cluster][1], "namespace": SYSTEM}
    return {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRefs": [parent], "rules": list(rules)},
    }


def rule(path: str, *backends: dict[str, Any], to: str | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": path}}],
        "backendRefs": list(backends),
    }
    if to is not None:
        found["filters"] = [rewrite(to)]
    return {**found, **more}


def rewrite(to: str) -> dict[str, Any]:
    return {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": to}}}


def to_service(name: str, port: int = 80, **more: Any) -> dict[str, Any]:
    return {"group": "", "kind": "Service", "name": name, "port": port, "weight": 1, **more}


def to_pool(name: str) -> dict[str, Any]:
    return {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name, "weight": 1}


def service(name: str, namespace: str = "ml-team", port: int = 80) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": port}]}}


def endpoint_slice(
    of: str, *hosts: str, port: int, kind: str = "IPv4", namespace: str = "ml-team", ready: bool = True
) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{of}-slice", "namespace": namespace, "labels": {"kubernetes.io/service-name": of}},
        "addressType": kind,
        "endpoints": [{"addresses": [host], "conditions": {"ready": ready}} for host in hosts],
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
    }


def pool(name: str, port: int = 8000, namespace: str = "default", **labels: str) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": labels}, "targetPorts": [{"number": port}]}
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "endpointPickerRef": {"name": f"{name}-epp", "port": {"number": 9002}}},
    }


def pod(name: str, ip: str, labels: dict[str, str], *, ready: bool = True, leaving: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "labels": labels}
    if leaving:
        meta["deletionTimestamp"] = "2026-11-30T21:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"podIP": ip, "conditions": conditions}}


def snapshot(dialect: Dialect, *manifests: Manifest) -> Snapshot:
    """What a gateway knows of a cluster that has its class, its Gateway and these."""
    found = Snapshot()
    for manifest in (gateway_class(dialect), gateway(dialect), *manifests):
        found.put(manifest["kind"], manifest)
    return found


__all__ = ["ENVOY", "TRAEFIK"]
