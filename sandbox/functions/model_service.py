"""ModelService: one HTTPRoute on the control-plane gateway to the endpoints that its selectors match.

Two of Modelplane's traps are kept: with no endpoint it composes nothing, which Crossplane calls Ready=True; and the
address is published before anything serves.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from modelplane.names import SYSTEM_NAMESPACE, route_path, service_address
from sandbox.functions.model import LATER, SOON, Desired, Manifest, Observed, Selector, Settings, dig

ROUTE = "httproute"
NO_ENDPOINTS = "No ModelEndpoints matched the configured selectors"


def compose(observed: Observed, settings: Settings) -> Desired:
    desired = Desired(ttl=SOON)
    desired.requires["inference-gateway"] = Selector("InferenceGateway", name="default")
    endpoints = _endpoints(observed, desired)
    if not endpoints:
        desired.lacks("EndpointsResolved", "NoEndpoints", NO_ENDPOINTS)
        desired.warnings.append(NO_ENDPOINTS)
        return desired

    routed = [(endpoint, weight) for endpoint, weight in endpoints if dig(endpoint, "status", "routing", "backendName")]
    waiting = len(endpoints) - len(routed)
    message = f"Matched {len(endpoints)} endpoint(s)" + (f"; {waiting} waiting for Backend" if waiting else "")
    desired.holds("EndpointsResolved", "Resolved", message)

    address = dig(observed.required_one("inference-gateway"), "status", "address")
    if address:
        port = f":{settings.public_port}" if settings.public_port else ""
        desired.status = {"address": service_address(f"{address}{port}", observed.namespace, observed.name)}

    ready = bool(routed) and _accepted(observed.resources.get(ROUTE))
    desired.add(ROUTE, _route(observed, routed), ready=ready)
    desired.condition("RoutingReady", ready, "RouteConfigured" if ready else "Configuring")
    if ready and not waiting:
        desired.ttl = LATER
    return desired


def _endpoints(observed: Observed, desired: Desired) -> list[tuple[Manifest, int]]:
    """Every matched endpoint once, with the weight of the first entry that matched it."""
    found: dict[tuple[str, str], tuple[Manifest, int]] = {}
    for index, entry in enumerate(observed.spec["endpoints"]):
        desired.requires[f"endpoints-{index}"] = Selector("ModelEndpoint", labels=entry["selector"]["matchLabels"])
        for endpoint in observed.required.get(f"endpoints-{index}", ()):
            meta = endpoint["metadata"]
            found.setdefault((meta["namespace"], meta["name"]), (endpoint, entry.get("weight", 1)))
    return list(found.values())


def _accepted(route: Manifest | None) -> bool:
    parents = dig(route, "status", "parents") or []
    return any(
        condition.get("type") == "Accepted" and condition.get("status") == "True"
        for parent in parents
        for condition in parent.get("conditions", [])
    )


def _route(observed: Observed, routed: list[tuple[Manifest, int]]) -> Manifest:
    prefix = route_path(observed.namespace, observed.name)
    rule: Manifest = {"matches": [{"path": {"type": "PathPrefix", "value": prefix}}]}
    if routed:
        rule["backendRefs"] = [_backend(endpoint, weight) for endpoint, weight in routed]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"namespace": observed.namespace},
        "spec": {"parentRefs": [{"name": "modelplane", "namespace": SYSTEM_NAMESPACE}], "rules": [rule]},
    }


def _backend(endpoint: Manifest, weight: int) -> Manifest:
    url = urlsplit(endpoint["spec"]["url"])
    backend: Manifest = {
        "name": endpoint["status"]["routing"]["backendName"],
        "port": url.port or (443 if url.scheme == "https" else 80),
        "weight": weight,
    }
    if prefix := endpoint["spec"].get("rewritePath"):
        path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix}
        backend["filters"] = [{"type": "URLRewrite", "urlRewrite": {"path": path}}]
    return backend
