"""InferenceGateway: the Gateway API on the control plane, Traefik's GatewayClass and the Gateway `modelplane`.

Traefik itself, its Helm release and MetalLB are left out: the sandbox's gateway process plays the controller and sets
statuses and the address.
"""

from __future__ import annotations

from modelplane.names import SYSTEM_NAMESPACE
from sandbox.functions.crds import GATEWAY_GROUP, gateway_api
from sandbox.functions.model import SOON, Desired, Observed, Settings, dig

CLASS = "gateway-class"
GATEWAY = "gateway"
# Traefik's entry point inside its pod; clients use the port of its Service.
LISTENER_PORT = 8000


def compose(observed: Observed, settings: Settings) -> Desired:  # noqa: ARG001
    desired = Desired()
    crds = gateway_api()
    for name, crd in crds.items():
        key = crd_key(name)
        desired.add(key, crd, ready=observed.is_true(key, "Established"))
    accepted = observed.is_true(CLASS, "Accepted")
    if all(crd_key(name) in desired.ready for name in crds) or CLASS in observed.resources:
        _add_gateway(desired, observed, class_ready=accepted)
    else:
        # The Gateway API has to be served before anything of it can be applied.
        desired.composite_ready = False
        desired.ttl = SOON
    addresses = dig(observed.resources.get(GATEWAY), "status", "addresses") or []
    if addresses:
        desired.status = {"address": addresses[0]["value"]}
    desired.condition("ControllerReady", accepted, "ControllerHealthy" if accepted else "Installing")
    return desired


def crd_key(name: str) -> str:
    return f"crd-{name}"


def _add_gateway(desired: Desired, observed: Observed, *, class_ready: bool) -> None:
    gateway_class = {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "traefik"},
        "spec": {"controllerName": "traefik.io/gateway-controller"},
    }
    desired.add(CLASS, gateway_class, ready=class_ready)
    listener = {
        "name": "web",
        "port": LISTENER_PORT,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }
    gateway = {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "Gateway",
        "metadata": {"name": "modelplane", "namespace": SYSTEM_NAMESPACE},
        "spec": {"gatewayClassName": "traefik", "listeners": [listener]},
    }
    # Accepted, not addressed: an InferenceGateway can be Ready before it has an address.
    desired.add(GATEWAY, gateway, ready=observed.is_true(GATEWAY, "Accepted"))
