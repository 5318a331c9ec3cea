"""InferenceCluster: one workload cluster, brought by the user (Existing) or made by Modelplane on a cloud."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Column, Definition, Label63, MapList, Model, Name, Resource, Rule, Spec, Status
from modelplane.kinds.devices import AttributeValue, CapacityValue
from modelplane.kinds.engines import Text
from modelplane.names import API_VERSION

_Region = Annotated[str, Field(min_length=1, max_length=32)]


class KubeconfigSecret(Model):
    """A Secret with a kubeconfig in namespace modelplane-system of the control plane."""

    name: Name
    key: Name = "kubeconfig"


class IdentitySecret(Model):
    """A cloud identity used instead of the kubeconfig's own credentials (type from v0.2.0)."""

    name: Name
    key: Name = "private_key"
    type: Literal["GoogleApplicationCredentials", "AWSWebIdentityCredentials", "NebiusServiceAccountCredentials"] = (
        "GoogleApplicationCredentials"
    )


class CacheStorage(Model):
    """A ReadWriteMany StorageClass for ModelCache."""

    storage_class_name: Name | None = None


class ExistingCluster(Model):
    """A cluster that the user made."""

    secret_ref: KubeconfigSecret
    identity_secret_ref: IdentitySecret | None = None
    cache: CacheStorage | None = None


class ProviderCredentials(Model):
    """The provider configuration that authenticates to the cloud (from v0.3.0)."""

    type: Literal["ClusterProviderConfig", "ProviderConfig"] = "ClusterProviderConfig"
    name: Name = "default"


class GkeCluster(Model):
    """GKE; the project is the provider configuration's (spec.projectID) since v0.3.0."""

    region: _Region
    kubernetes_version: str = "1.35"
    credentials: ProviderCredentials | None = None


class EksCluster(Model):
    """EKS."""

    region: _Region
    kubernetes_version: str = "1.36"
    credentials: ProviderCredentials | None = None


class AksCluster(Model):
    """AKS (from v0.2.0)."""

    location: _Region
    kubernetes_version: str = "1.34"
    credentials: ProviderCredentials | None = None


class NebiusCluster(Model):
    """Nebius mk8s (from v0.2.0); may be empty."""

    kubernetes_version: str = "1.34"
    credentials: ProviderCredentials | None = None


class VultrCluster(Model):
    """Vultr VKE (from v0.3.0); the version includes the build suffix."""

    region: _Region
    kubernetes_version: str = "v1.36.1+3"
    credentials: ProviderCredentials | None = None


def _block_rule(source: str) -> Rule:
    block = source.lower()
    return Rule(
        f"{block} is required when source is {source}",
        f"has(self.{block}) || self.source != '{source}'",
        lambda c: c.source != source or getattr(c, block) is not None,
    )


class ClusterSource(Model):
    """Where the cluster comes from, with the block named after the source."""

    source: Literal["GKE", "EKS", "AKS", "Nebius", "Vultr", "Existing"]
    existing: ExistingCluster | None = None
    gke: GkeCluster | None = None
    eks: EksCluster | None = None
    aks: AksCluster | None = None
    nebius: NebiusCluster | None = None
    vultr: VultrCluster | None = None

    RULES = tuple(_block_rule(source) for source in ("GKE", "EKS", "AKS", "Nebius", "Vultr", "Existing"))


class Taint(Model):
    """Keeps replicas off this cluster (from v0.2.0); NoExecute also evicts."""

    key: Text
    value: str | None = None
    effect: Literal["NoSchedule", "NoExecute"]


class CapacityBlock(Model):
    """An EC2 Capacity Block for ML."""

    capacity_reservation_id: Annotated[str, Field(pattern="^cr-[0-9a-f]+$", min_length=4, max_length=64)]


class InfinibandFabric(Model):
    """A physical Nebius fabric by its identifier."""

    fabric: Label63


class Fabric(Model):
    """Fast network between nodes; a plain string in v0.1.0."""

    type: Literal["None", "EFA", "InfiniBand"] = "None"
    infiniband: InfinibandFabric | None = None

    RULES = (
        Rule(
            "infiniband may only be set when type is InfiniBand",
            "!has(self.infiniband) || self.type == 'InfiniBand'",
            lambda f: f.infiniband is None or f.type == "InfiniBand",
        ),
    )


class NodePool(Model):
    """A GPU node pool; its nodes carry the label modelplane.ai/pool=<name>."""

    name: Annotated[str, Field(max_length=40)]
    class_name: Name
    node_count: Annotated[int, Field(ge=0)] = 1
    min_node_count: Annotated[int, Field(ge=0)] | None = None
    max_node_count: Annotated[int, Field(ge=1)] | None = None
    zones: list[str] | None = None
    capacity_block: CapacityBlock | None = None
    fabric: Fabric | None = None


def _nebius_fabrics_named(spec: InferenceClusterSpec) -> bool:
    return spec.cluster.source != "Nebius" or not any(
        pool.fabric is not None and pool.fabric.type == "InfiniBand" and pool.fabric.infiniband is None
        for pool in spec.node_pools or []
    )


class InferenceClusterSpec(Spec):
    """Source, taints and node pools."""

    cluster: ClusterSource
    taints: Annotated[list[Taint], MapList(("key", "effect"))] | None = None
    node_pools: Annotated[list[NodePool], Field(min_length=1, max_length=8), MapList()] | None = None

    RULES = (
        Rule(
            "fabric.infiniband is required for a pool with fabric.type InfiniBand on Nebius",
            "self.cluster.source != 'Nebius' || !has(self.nodePools) || !self.nodePools.exists(p,"
            " has(p.fabric) && p.fabric.type == 'InfiniBand' && !has(p.fabric.infiniband))",
            _nebius_fabrics_named,
        ),
    )


class GatewayStatus(Model):
    """External address of a gateway: IP or host name."""

    address: str | None = None


class ProviderConfigReference(Model):
    """The provider-kubernetes ClusterProviderConfig that reaches this cluster."""

    name: str | None = None


class ObservedDevice(Model):
    """A device of a pool, as copied from its class."""

    name: Annotated[str, Field(max_length=63)]
    driver: Annotated[str, Field(max_length=253)]
    claim: Literal["DRA", "Synthetic"] | None = None
    device_class_name: Annotated[str, Field(max_length=253)] | None = None
    count: int | None = None
    attributes: Annotated[dict[str, AttributeValue], Field(max_length=32)] | None = None
    capacity: Annotated[dict[str, CapacityValue], Field(max_length=32)] | None = None


class GpuPool(Model):
    """A pool the scheduler may use; nodes is declared capacity, never observed."""

    name: str
    nodes: int | None = None
    devices: Annotated[list[ObservedDevice], Field(max_length=16), MapList()] | None = None


class InferenceClusterStatus(Status):
    """Conditions ClusterReady and BackendReady; namespace: where the composed objects are."""

    provider_config_ref: ProviderConfigReference | None = None
    gateway: GatewayStatus | None = None
    cache: CacheStorage | None = None
    gpu_pools: Annotated[list[GpuPool], Field(max_length=8), MapList()] | None = None
    namespace: str | None = None


class InferenceCluster(Resource):
    """A workload cluster on which Modelplane installs its serving stack."""

    DEFINITION = Definition(
        kind="InferenceCluster",
        plural="inferenceclusters",
        short_name="ic",
        scope="Cluster",
        columns=(Column("SOURCE", ".spec.cluster.source"), Column("GATEWAY", ".status.gateway.address")),
    )
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["InferenceCluster"] = "InferenceCluster"
    spec: InferenceClusterSpec
    status: InferenceClusterStatus | None = None
