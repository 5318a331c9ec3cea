"""ModelCache: an artifact staged on workload clusters. This stack reads it in manifests and needs none itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Column, Definition, MatchLabels, Model, Resource, Rule, Spec, Status
from modelplane.kinds.engines import Text
from modelplane.names import API_VERSION


class AuthSecret(Model):
    """A Secret with a Hugging Face token in the cache's own namespace."""

    name: Text
    key: str = "HF_TOKEN"


class HuggingFaceSource(Model):
    """A Hugging Face repository; sizeGiB is the volume's size on each cluster."""

    repo: Text
    revision: str | None = None
    auth_secret: AuthSecret | None = None
    size_gib: Annotated[int, Field(ge=1, le=100_000)] = Field(alias="sizeGiB")


class ModelCacheSpec(Spec):
    """Source and clusters."""

    source: Literal["HuggingFace"]
    hugging_face: HuggingFaceSource | None = None
    cluster_selector: MatchLabels | None = None

    RULES = (
        Rule(
            "huggingFace is required when source is HuggingFace",
            "has(self.huggingFace) || self.source != 'HuggingFace'",
            lambda s: s.hugging_face is not None or s.source != "HuggingFace",
        ),
    )


class CacheSummary(Model):
    """ready: clusters that hold the artifact of all that should, e.g. 2/3."""

    ready: str | None = None


class CacheCluster(Model):
    """Staging on one cluster."""

    name: str
    phase: Literal["Pending", "Hydrating", "Ready", "Failed"] | None = None
    message: str | None = None


class ModelCacheStatus(Status):
    """Conditions ClustersMatched and ArtifactReady."""

    summary: CacheSummary | None = None
    clusters: list[CacheCluster] | None = None


class ModelCache(Resource):
    """A model artifact on shared storage of the workload clusters."""

    DEFINITION = Definition(
        kind="ModelCache",
        plural="modelcaches",
        short_name="mc",
        scope="Namespaced",
        columns=(Column("SOURCE", ".spec.huggingFace.repo"), Column("READY", ".status.summary.ready")),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["ModelCache"] = "ModelCache"
    spec: ModelCacheSpec
    status: ModelCacheStatus | None = None
