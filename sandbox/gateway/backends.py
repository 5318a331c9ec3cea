"""Where a backend's requests go: a Service's endpoints, or an InferencePool's ready pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.gateway.routes import Backend
from sandbox.gateway.snapshot import Manifest, Snapshot

# Host (address or name) and port.
Endpoint = tuple[str, int]
_SERVICE_NAME = "kubernetes.io/service-name"


def valid(snapshot: Snapshot, backend: Backend, *, pools: bool) -> bool:
    """Whether the reference can be resolved: the object exists, and the Service has the port."""
    if backend.kind == "InferencePool":
        return pools and snapshot.get("InferencePool", backend.namespace, backend.name) is not None
    service = snapshot.get("Service", backend.namespace, backend.name) if backend.kind == "Service" else None
    return service is not None and _service_port(service, backend.port) is not None


def endpoints(snapshot: Snapshot, backend: Backend) -> list[Endpoint]:
    """The ready endpoints of a valid backend, in a stable order."""
    if backend.kind == "InferencePool":
        pool = snapshot.get("InferencePool", backend.namespace, backend.name)
        return sorted(_pods(snapshot, pool)) if pool else []
    service = snapshot.get("Service", backend.namespace, backend.name)
    port = _service_port(service, backend.port) if service else None
    return sorted(_slices(snapshot, backend, port.get("name") or "")) if port is not None else []


def _service_port(service: Manifest, number: int | None) -> Mapping[str, Any] | None:
    ports = service["spec"].get("ports") or []
    return next((port for port in ports if port["port"] == number), None)


def _slices(snapshot: Snapshot, backend: Backend, port_name: str) -> Iterator[Endpoint]:
    for item in snapshot.all("EndpointSlice", backend.namespace):
        if (item["metadata"].get("labels") or {}).get(_SERVICE_NAME) != backend.name:
            continue
        ports = [port["port"] for port in item.get("ports") or [] if (port.get("name") or "") == port_name]
        for endpoint in item.get("endpoints") or []:
            # Absent means ready, as for a proxy of Services.
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                yield from ((address, port) for address in endpoint["addresses"] for port in ports)


def _pods(snapshot: Snapshot, pool: Manifest) -> Iterator[Endpoint]:
    wanted = pool["spec"]["selector"]["matchLabels"].items()
    ports = [item["number"] for item in pool["spec"]["targetPorts"]]
    for pod in snapshot.all("Pod", pool["metadata"]["namespace"]):
        labels = pod["metadata"].get("labels") or {}
        status = pod.get("status") or {}
        if wanted <= labels.items() and _ready(pod) and status.get("podIP"):
            yield from ((status["podIP"], port) for port in ports)


def _ready(pod: Manifest) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
