"""ModelEndpoint: a Service without selector and an EndpointSlice, so that a route on the control plane can name a URL's
host.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from sandbox.functions.model import Desired, Manifest, Observed, Settings, dig

SERVICE = "service"
SLICE = "endpointslice"


def compose(observed: Observed, settings: Settings) -> Desired:  # noqa: ARG001
    desired = Desired()
    target = _target(str(observed.spec["url"]))
    if target is None:
        desired.lacks("RoutingReady", "InvalidURL")
        desired.composite_ready = False
        return desired
    host, port = target
    desired.add(SERVICE, _service(observed.namespace, port), ready=SERVICE in observed.resources)
    # The Service's name is generated, so the slice that belongs to it waits until it exists.
    backend = dig(observed.resources.get(SERVICE), "metadata", "name")
    if not backend:
        desired.lacks("RoutingReady", "WaitingForBackend")
        return desired
    desired.add(SLICE, _slice(observed.namespace, backend, host, port), ready=SLICE in observed.resources)
    desired.status = {"routing": {"backendName": backend}}
    desired.holds("RoutingReady", "BackendConfigured")
    return desired


def _target(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # a port that is not a number
        return None
    return (parts.hostname, port) if parts.hostname and port else None


def _address_type(host: str) -> str:
    try:
        return f"IPv{ipaddress.ip_address(host).version}"
    except ValueError:
        return "FQDN"


def _service(namespace: str, port: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace},
        "spec": {"ports": [{"port": port, "targetPort": port, "protocol": "TCP"}]},
    }


def _slice(namespace: str, service: str, host: str, port: int) -> Manifest:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "addressType": _address_type(host),
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
    }
