"""InferenceClass: what a node of one machine type offers, and how a cloud makes one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Definition, Label63, MapList, Model, Resource, Rule, Spec, Status
from modelplane.kinds.devices import Device
from modelplane.kinds.engines import Text
from modelplane.names import API_VERSION

_DiskSize = Annotated[int, Field(ge=10)]  # GB


class Accelerator(Model):
    """GPU type and count of the machine, for provisioning only; scheduling reads spec.devices."""

    type: Label63
    count: Annotated[int, Field(ge=1, le=16)]


class _Machine(Model):
    accelerator: Accelerator


class GkeMachine(_Machine):
    """GCP machine type."""

    machine_type: Text
    disk_size_gb: _DiskSize = 100


class EksMachine(_Machine):
    """EC2 instance type."""

    instance_type: Text
    disk_size_gb: _DiskSize = 100


class AksMachine(_Machine):
    """Azure VM size (from v0.2.0)."""

    vm_size: Text
    disk_size_gb: _DiskSize = 100


class NebiusMachine(_Machine):
    """Nebius platform and preset (from v0.2.0)."""

    platform: Label63
    preset: Label63
    disk_size_gb: _DiskSize = 100
    drivers_preset: Label63 = "cuda13.0"


class VultrMachine(_Machine):
    """Vultr plan (from v0.3.0)."""

    plan: Label63


def _block_rule(provider: str) -> Rule:
    block = provider.lower()
    return Rule(
        f"{block} is required when provider is {provider}",
        f"has(self.{block}) || self.provider != '{provider}'",
        lambda p: p.provider != provider or getattr(p, block) is not None,
    )


class Provisioning(Model):
    """How to make a node pool of this class; omit it for pools that already exist."""

    provider: Literal["GKE", "EKS", "AKS", "Nebius", "Vultr"]
    gke: GkeMachine | None = None
    eks: EksMachine | None = None
    aks: AksMachine | None = None
    nebius: NebiusMachine | None = None
    vultr: VultrMachine | None = None

    RULES = tuple(_block_rule(provider) for provider in ("GKE", "EKS", "AKS", "Nebius", "Vultr"))


class InferenceClassSpec(Spec):
    """Devices of a node, and optionally how to make such nodes."""

    description: str | None = None
    devices: Annotated[list[Device], Field(min_length=1, max_length=16), MapList()]
    provisioning: Provisioning | None = None


class InferenceClass(Resource):
    """One kind of GPU node. Condition Accepted; it composes nothing."""

    DEFINITION = Definition(kind="InferenceClass", plural="inferenceclasses", short_name="icl", scope="Cluster")
    api_version: Literal["modelplane.ai/v1alpha1"] = API_VERSION
    kind: Literal["InferenceClass"] = "InferenceClass"
    spec: InferenceClassSpec
    status: Status | None = None
