"""The kinds of Modelplane v0.3.1 that this stack writes or reads."""

from __future__ import annotations

from modelplane.kinds.base import Condition, ObjectMeta, Resource, subject_of
from modelplane.kinds.inference_class import InferenceClass
from modelplane.kinds.inference_cluster import InferenceCluster
from modelplane.kinds.inference_gateway import InferenceGateway
from modelplane.kinds.model_cache import ModelCache
from modelplane.kinds.model_deployment import ModelDeployment
from modelplane.kinds.model_endpoint import ModelEndpoint
from modelplane.kinds.model_replica import ModelReplica
from modelplane.kinds.model_service import ModelService
from modelplane.kinds.serving_stack import ServingStack

KINDS: dict[str, type[Resource]] = {
    kind.DEFINITION.kind: kind
    for kind in (
        InferenceGateway,
        InferenceClass,
        InferenceCluster,
        ModelDeployment,
        ModelReplica,
        ModelService,
        ModelEndpoint,
        ModelCache,
        ServingStack,
    )
}

__all__ = [
    "KINDS",
    "Condition",
    "InferenceClass",
    "InferenceCluster",
    "InferenceGateway",
    "ModelCache",
    "ModelDeployment",
    "ModelEndpoint",
    "ModelReplica",
    "ModelService",
    "ObjectMeta",
    "Resource",
    "ServingStack",
    "subject_of",
]
