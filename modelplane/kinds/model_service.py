"""ModelService: one address for the endpoints that its selectors match."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Column, Definition, Model, Resource, Spec, Status
from modelplane.names import API_VERSION


class EndpointSelector(Model):
    """Labels that a ModelEndpoint must carry."""

    match_labels: dict[str, str]


class EndpointGroup(Model):
    """Endpoints by label, with a share of the traffic (weight from v0.2.0)."""

    selector: EndpointSelector
    weight: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class ModelServiceSpec(Spec):
    """Groups of endpoints."""

    endpoints: Annotated[list[EndpointGroup], Field(min_length=1)]


class ModelServiceStatus(Status):
    """Conditions EndpointsResolved and RoutingReady; address: http://<gateway>/<namespace>/<service>."""

    address: str | None = None


class ModelService(Resource):
    """The public address of one or more ModelDeployments."""

    DEFINITION = Definition(
        kind="ModelService",
        plural="modelservices",
        short_name="ms",
        scope="Namespaced",
        columns=(Column("ADDRESS", ".status.address"),),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["ModelService"] = "ModelService"
    spec: ModelServiceSpec
    status: ModelServiceStatus | None = None
