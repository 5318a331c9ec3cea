"""InferenceGateway: the control plane's entry for requests. Modelplane looks it up by the name `default`."""

from __future__ import annotations

from typing import Literal

from modelplane.kinds.base import Column, Definition, Model, Resource, Rule, Spec, Status
from modelplane.names import API_VERSION


class MetalLb(Model):
    """Address range, e.g. 172.18.255.200-172.18.255.250, for clusters without a cloud's load balancer."""

    address_pool: str


class Traefik(Model):
    """Traefik chart version and its load balancer; omit loadBalancer on clouds."""

    version: str
    load_balancer: Literal["MetalLB"] | None = None
    metallb: MetalLb | None = None

    RULES = (
        Rule(
            "metallb is required when loadBalancer is MetalLB",
            "has(self.metallb) || !has(self.loadBalancer) || self.loadBalancer != 'MetalLB'",
            lambda t: t.metallb is not None or t.load_balancer != "MetalLB",
        ),
    )


class InferenceGatewaySpec(Spec):
    """Backend and the block named after it."""

    backend: Literal["Traefik"]
    traefik: Traefik | None = None

    RULES = (
        Rule(
            "traefik is required when backend is Traefik",
            "has(self.traefik) || self.backend != 'Traefik'",
            lambda s: s.traefik is not None or s.backend != "Traefik",
        ),
    )


class InferenceGatewayStatus(Status):
    """Condition ControllerReady; address: IP or host name of the load balancer."""

    address: str | None = None


class InferenceGateway(Resource):
    """Gateway of the control plane that routes requests to the workload clusters."""

    DEFINITION = Definition(
        kind="InferenceGateway",
        plural="inferencegateways",
        short_name="ig",
        scope="Cluster",
        columns=(Column("GATEWAY", ".spec.backend"), Column("ADDRESS", ".status.address")),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["InferenceGateway"] = "InferenceGateway"
    spec: InferenceGatewaySpec
    status: InferenceGatewayStatus | None = None
