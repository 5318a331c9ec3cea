"""ServingStack: what Modelplane installs on a workload cluster. Internal; this stack patches its driver root."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Column, Definition, Label63, MapList, Model, Resource, Rule, Spec, Status
from modelplane.names import INFRASTRUCTURE_API_VERSION

_Version = Annotated[str, Field(min_length=1, max_length=32)]
_Limited = Annotated[str, Field(max_length=253)]


class StackSecret(Model):
    """A credential for the target cluster; GCPServiceAccountKey was the Google type's name in v0.1.0."""

    type: Literal[
        "Kubeconfig", "GoogleApplicationCredentials", "AWSWebIdentityCredentials", "NebiusServiceAccountCredentials"
    ]
    name: _Limited
    key: _Limited
    namespace: _Limited | None = None


class StackVersions(Model):
    """Chart versions; the defaults are those of all releases up to v0.3.1, as in their XRD."""

    gateway_api: _Version = "v1.5.1"
    cert_manager: _Version = "v1.17.1"
    envoy_gateway: _Version = "v1.8.1"
    prometheus: _Version = "72.6.2"
    leader_worker_set: _Version = "v0.8.0"
    node_feature_discovery: _Version = "0.18.3"
    nvidia_dra_driver: _Version = "0.4.0"


class Listener(Model):
    """A listener of the workload gateway."""

    name: Label63
    port: Annotated[int, Field(ge=1, le=65535)]
    protocol: Literal["HTTP", "TCP"]


class StackGateway(Model):
    """The workload gateway: GatewayClass and listeners (default: HTTP on port 80)."""

    class_name: Label63 = "envoy"
    listeners: Annotated[list[Listener], Field(max_length=8), MapList()] | None = None


class ServingStackSpec(Spec):
    """Credentials, driver root on the nodes, versions and gateway."""

    secrets: Annotated[list[StackSecret], Field(min_length=1, max_length=8)]
    nvidia_driver_root: Annotated[str, Field(max_length=512)] = "/"
    versions: StackVersions | None = None
    gateway: StackGateway | None = None

    RULES = (
        Rule(
            "secrets must include one of type Kubeconfig",
            "self.secrets.exists(given, given.type == 'Kubeconfig')",
            lambda s: any(secret.type == "Kubeconfig" for secret in s.secrets),
        ),
    )


class StackGatewayStatus(Model):
    """External address of the workload gateway."""

    address: Annotated[str, Field(max_length=256)] | None = None


class ServingStackStatus(Status):
    """Ready says that the charts are installed, not that a device was published."""

    gateway: StackGatewayStatus | None = None


class ServingStack(Resource):
    """The serving substrate of one workload cluster, in namespace modelplane-system."""

    DEFINITION = Definition(
        kind="ServingStack",
        plural="servingstacks",
        short_name="ss",
        scope="Namespaced",
        group="infrastructure.modelplane.ai",
        columns=(Column("GATEWAY", ".status.gateway.address"),),
    )
    api_version: Literal["infrastructure.modelplane.ai/v1alpha1"] = INFRASTRUCTURE_API_VERSION
    kind: Literal["ServingStack"] = "ServingStack"
    spec: ServingStackSpec
    status: ServingStackStatus | None = None
