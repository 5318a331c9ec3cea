"""ModelEndpoint: one address that serves a model; Modelplane makes one per ready replica."""

from __future__ import annotations

from typing import Literal

from modelplane.kinds.base import Column, Definition, Model, Resource, Spec, Status
from modelplane.kinds.engines import Text
from modelplane.names import API_VERSION


class ModelEndpointSpec(Spec):
    """url: where the endpoint answers; rewritePath: the path prefix that requests are rewritten to."""

    url: Text
    rewrite_path: str | None = None


class EndpointRouting(Model):
    """backendName: the Service that the HTTPRoute of a ModelService points at."""

    backend_name: str | None = None


class ModelEndpointStatus(Status):
    """Condition RoutingReady."""

    routing: EndpointRouting | None = None


class ModelEndpoint(Resource):
    """A routable inference endpoint."""

    DEFINITION = Definition(
        kind="ModelEndpoint",
        plural="modelendpoints",
        short_name="me",
        scope="Namespaced",
        columns=(Column("URL", ".spec.url"),),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["ModelEndpoint"] = "ModelEndpoint"
    spec: ModelEndpointSpec
    status: ModelEndpointStatus | None = None
