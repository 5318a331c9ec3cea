"""ModelDeployment in its v0.3.1 form (spec.template.spec.engines). dialect.py translates the v0.1.0 form."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Column, Definition, Label63, MapList, MatchLabels, Model, Resource, Rule, Spec, Status
from modelplane.kinds.engines import (
    PHASE_RULES,
    ROLES_RULE,
    BaseEngine,
    BaseMember,
    DeviceSelector,
    ModelCacheReference,
    PodTemplate,
    Serving,
)
from modelplane.kinds.labels import LabelMeta
from modelplane.names import API_VERSION


class DeviceRequest(Model):
    """Devices each pod of a member needs from its node; all selectors must hold for one device."""

    name: Label63
    count: Annotated[int, Field(ge=1, le=64)] = 1
    selectors: Annotated[list[DeviceSelector], Field(min_length=1, max_length=8)]


class NodeSelector(Model):
    """The device requests of a member."""

    devices: Annotated[list[DeviceRequest], Field(min_length=1, max_length=16), MapList()]


class Member(BaseMember):
    """One pod of an engine, or its group of worker pods."""

    node_selector: NodeSelector | None = None
    template: PodTemplate


class Engine(BaseEngine):
    """One serving unit: a Standalone pod, or a Leader with Workers."""

    members: Annotated[list[Member], Field(min_length=1, max_length=2)]

    RULES = (
        ROLES_RULE,
        Rule(
            "at least one member of an engine must have a nodeSelector that requests devices",
            "self.members.exists(m, has(m.nodeSelector))",
            lambda e: any(member.node_selector is not None for member in e.members),
        ),
    )


class Toleration(Model):
    """Tolerates taints of InferenceClusters, not of nodes."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "NoExecute"] | None = None

    RULES = (
        Rule(
            "a toleration with operator Equal needs a key",
            "self.operator != 'Equal' || (has(self.key) && self.key != '')",
            lambda t: t.operator != "Equal" or bool(t.key),
        ),
        Rule(
            "a toleration with operator Exists may not have a value",
            "self.operator != 'Exists' || !has(self.value)",
            lambda t: t.operator != "Exists" or t.value is None,
        ),
    )


class ReplicaSpec(Model):
    """spec.template.spec: what each replica runs and where it may run."""

    cluster_selector: MatchLabels | None = None
    model_cache_ref: ModelCacheReference | None = None
    serving: Serving | None = None
    tolerations: list[Toleration] | None = None
    engines: Annotated[list[Engine], Field(min_length=1, max_length=8), MapList()]

    RULES = PHASE_RULES


class ReplicaTemplate(Model):
    """Template of the ModelReplicas; its labels go onto ModelReplicas and ModelEndpoints, not onto pods."""

    metadata: LabelMeta | None = None
    spec: ReplicaSpec


class ModelDeploymentSpec(Spec):
    """Replica count and template."""

    replicas: Annotated[int, Field(ge=1, le=10)]
    template: ReplicaTemplate


class ReplicaCounts(Model):
    """Scheduled and ready replicas."""

    total: int | None = None
    ready: int | None = None


class ModelDeploymentStatus(Status):
    """Conditions ReplicasScheduled, ReplicasReady and (with a cache) ModelCacheResolved."""

    replicas: ReplicaCounts | None = None


class ModelDeployment(Resource):
    """Runs a model in N replicas, each placed on one InferenceCluster."""

    DEFINITION = Definition(
        kind="ModelDeployment",
        plural="modeldeployments",
        short_name="md",
        scope="Namespaced",
        columns=(Column("REPLICAS", ".status.replicas.ready"),),
        scale=(".spec.replicas", ".status.replicas.total"),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["ModelDeployment"] = "ModelDeployment"
    spec: ModelDeploymentSpec
    status: ModelDeploymentStatus | None = None
