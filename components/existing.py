"""Two clusters that already exist, checked before anything is made in them. The sandbox is used in the same way.

Deliberately not here: installing Crossplane and Modelplane. A control plane without them is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi import Output, ResourceOptions

from components.cluster import Cluster, kubernetes_provider
from components.gates import resources as gates
from components.identity import Identities


@dataclass(frozen=True)
class ExistingClustersArgs:
    """control_plane_kubeconfig, workload_kubeconfig: text; identities: of the two; node_pool, node_count: what the
    workload cluster's GPU nodes must be; secrets: [{name, key}] that must be there already.
    """

    control_plane_kubeconfig: str
    workload_kubeconfig: str
    identities: Identities
    node_pool: str
    node_count: int
    secrets: Sequence[Mapping[str, str]] = ()


class ExistingClusters(pulumi.ComponentResource):
    """The control plane and the workload cluster."""

    control_plane: Cluster
    workload: Cluster

    def __init__(self, name: str, args: ExistingClustersArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("speculation:components:ExistingClusters", name, {}, opts)
        control_plane, workload = Output.secret(args.control_plane_kubeconfig), Output.secret(args.workload_kubeconfig)
        identities = args.identities
        check = gates.Clusters(
            f"{name}-check",
            control_plane_kubeconfig=control_plane,
            workload_kubeconfig=workload,
            control_plane_uid=identities.control_plane,
            workload_uid=identities.workload,
            node_pool=args.node_pool,
            node_count=args.node_count,
            secrets=args.secrets,
            opts=ResourceOptions(parent=self),
        )
        self.control_plane = Cluster(
            "control-plane",
            control_plane,
            kubernetes_provider("control-plane", control_plane, identities.control_plane, parent=self),
            (check,),
        )
        self.workload = Cluster(
            "workload", workload, kubernetes_provider("workload", workload, identities.workload, parent=self), (check,)
        )
        self.register_outputs({"control_plane_uid": identities.control_plane, "workload_uid": identities.workload})
