"""ModelReplica: one placed replica. Modelplane writes it; this stack reads names, placement and conditions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Column, Definition, Label63, MapList, Model, Name, Resource, Rule, Spec
from modelplane.kinds.base import Status as ModelReplicaStatus
from modelplane.kinds.engines import (
    PHASE_RULES,
    ROLES_RULE,
    BaseEngine,
    BaseMember,
    DeviceSelector,
    ModelCacheReference,
    PodTemplate,
    Serving,
    Text,
)
from modelplane.names import API_VERSION


class ResolvedDeviceRequest(Model):
    """A device request with the DeviceClass that the matched InferenceClass names."""

    name: Label63
    device_class_name: Name
    count: Annotated[int, Field(ge=1, le=64)] = 1
    selectors: Annotated[list[DeviceSelector], Field(max_length=8)] | None = None


class ReplicaMember(BaseMember):
    """A member pinned to a node pool of the replica's cluster."""

    node_pool_name: Text
    device_requests: Annotated[list[ResolvedDeviceRequest], Field(min_length=1, max_length=16), MapList()] | None = None
    template: PodTemplate


class ReplicaEngine(BaseEngine):
    """An engine whose members are placed."""

    members: Annotated[list[ReplicaMember], Field(min_length=1, max_length=2)]

    RULES = (
        ROLES_RULE,
        Rule(
            "at least one member of an engine must have deviceRequests",
            "self.members.exists(m, has(m.deviceRequests))",
            lambda e: any(member.device_requests is not None for member in e.members),
        ),
    )


class ModelReplicaSpec(Spec):
    """Cluster and engines of one replica."""

    cluster_name: Text
    model_cache_ref: ModelCacheReference | None = None
    serving: Serving | None = None
    engines: Annotated[list[ReplicaEngine], Field(min_length=1, max_length=8), MapList()]

    RULES = PHASE_RULES


class ModelReplica(Resource):
    """One replica of a ModelDeployment, pinned to a cluster. Conditions ModelAccepted and ModelReady."""

    DEFINITION = Definition(
        kind="ModelReplica",
        plural="modelreplicas",
        short_name="mr",
        scope="Namespaced",
        columns=(Column("CLUSTER", ".spec.clusterName"),),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["ModelReplica"] = "ModelReplica"
    spec: ModelReplicaSpec
    status: ModelReplicaStatus | None = None
