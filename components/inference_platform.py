"""The serving platform on two clusters: Modelplane's gateway, the GPU class, and the workload cluster registered with
it.

Order: namespace -> gateway and class -> kubeconfig Secret -> InferenceCluster ->
ready with a gateway address. Destroy runs the other way; the Secret outlives the InferenceCluster, whose finalizers
need it (modelplane issue 212).
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import Output, ResourceOptions

from components.cluster import Cluster
from components.encoding import base64_text, content_hash
from components.gates import resources as gates
from components.manifest import KubernetesObject
from modelplane.kinds import InferenceClass, InferenceCluster, InferenceGateway
from modelplane.names import API_VERSION, GATEWAY_NAME, SYSTEM_NAMESPACE
from stacks import gpu

# The chart version of all of Modelplane's documents and tests, v0.1.0 to v0.3.1.
TRAEFIK_VERSION = "40.2.0"
CLASS_NAME = "nvidia-l4"


@dataclass(frozen=True)
class InferencePlatformArgs:
    """cluster_name: of the InferenceCluster; node_pool, node_count: its GPU pool; timeout, destroy_timeout: e.g.
    "20m".
    """

    control_plane: Cluster
    workload: Cluster
    cluster_name: str
    node_pool: str
    node_count: int
    timeout: str
    destroy_timeout: str


class InferencePlatform(pulumi.ComponentResource):
    """gateway_address: of the workload cluster's gateway; ready: what a model waits for."""

    gateway_address: Output[str]
    ready: tuple[pulumi.Resource, ...]

    def __init__(self, name: str, args: InferencePlatformArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("speculation:components:InferencePlatform", name, {}, opts)
        deletes = pulumi.CustomTimeouts(delete=args.destroy_timeout)
        on_control_plane = ResourceOptions(parent=self, provider=args.control_plane.provider, custom_timeouts=deletes)
        namespace = gates.Namespace(
            f"{name}-namespace",
            kubeconfig=args.control_plane.kubeconfig,
            namespace=SYSTEM_NAMESPACE,
            timeout=args.destroy_timeout,
            opts=ResourceOptions(parent=self, depends_on=list(args.control_plane.ready)),
        )
        after_namespace = ResourceOptions.merge(on_control_plane, ResourceOptions(depends_on=[namespace]))
        gateway = KubernetesObject(f"{name}-gateway", gateway_manifest(), after_namespace)
        inference_class = KubernetesObject(f"{name}-class", class_manifest(), after_namespace)
        secret = KubernetesObject(
            f"{name}-kubeconfig", secret_manifest(args.cluster_name, args.workload.kubeconfig), after_namespace
        )
        manifest = cluster_manifest(args)
        cluster = KubernetesObject(
            f"{name}-cluster",
            manifest,
            ResourceOptions.merge(
                on_control_plane,
                ResourceOptions(depends_on=[namespace, inference_class, secret, *args.workload.ready]),
            ),
        )
        ready = gates.InferenceClusterReady(
            f"{name}-ready",
            kubeconfig=args.control_plane.kubeconfig,
            cluster=args.cluster_name,
            spec=content_hash(manifest),
            timeout=args.timeout,
            destroy_timeout=args.destroy_timeout,
            opts=ResourceOptions(parent=self, depends_on=[cluster]),
        )
        self.gateway_address = ready.gateway_address
        self.ready = (gateway, ready)
        self.register_outputs({"gateway_address": self.gateway_address})


def gateway_manifest() -> dict[str, object]:
    """The InferenceGateway, by the one name under which Modelplane looks for it."""
    return InferenceGateway.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "InferenceGateway",
            "metadata": {"name": GATEWAY_NAME},
            "spec": {"backend": "Traefik", "traefik": {"version": TRAEFIK_VERSION}},
        }
    ).to_manifest()


def class_manifest() -> dict[str, object]:
    """The InferenceClass of a node with one NVIDIA L4."""
    return InferenceClass.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "InferenceClass",
            "metadata": {"name": CLASS_NAME},
            "spec": {"description": f"one {gpu.PRODUCT}", "devices": [gpu.device()]},
        }
    ).to_manifest()


def secret_name(cluster_name: str) -> str:
    """The Secret that holds the InferenceCluster's kubeconfig."""
    return f"{cluster_name}-kubeconfig"


def secret_manifest(cluster_name: str, kubeconfig: Output[str]) -> dict[str, object]:
    """The Secret with the workload cluster's kubeconfig (a secret Output), as Modelplane reads it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(cluster_name), "namespace": SYSTEM_NAMESPACE},
        "type": "Opaque",
        "data": {"kubeconfig": kubeconfig.apply(base64_text)},
    }


def cluster_manifest(args: InferencePlatformArgs) -> dict[str, object]:
    """The InferenceCluster: the workload cluster as an existing one, with its GPU pool."""
    return InferenceCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "InferenceCluster",
            "metadata": {"name": args.cluster_name},
            "spec": {
                "cluster": {
                    "source": "Existing",
                    "existing": {"secretRef": {"name": secret_name(args.cluster_name), "key": "kubeconfig"}},
                },
                "nodePools": [{"name": args.node_pool, "className": CLASS_NAME, "nodeCount": args.node_count}],
            },
        }
    ).to_manifest()
