"""A Kubernetes cluster as the rest of the stack sees it, wherever it came from."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s
from pulumi import Output

# The provider reads the whole OpenAPI document of a cluster, megabytes where Crossplane is; its own limit of 32 s makes
# a slow API server look unreachable.
API_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """One cluster.

    name: for people and resource names; kubeconfig: text, secret, one context, self-contained for a workload cluster;
    provider: the only way in which resources reach the cluster; ready: what must be there before anything is made in
    it.
    """

    name: str
    kubeconfig: Output[str]
    provider: k8s.Provider
    ready: tuple[pulumi.Resource, ...] = ()


def kubernetes_provider(
    name: str, kubeconfig: Output[str], identity: pulumi.Input[str], *, parent: pulumi.Resource
) -> k8s.Provider:
    """The Kubernetes provider of one cluster. identity: what stays the same while kubeconfigs change."""
    return k8s.Provider(
        name,
        kubeconfig=kubeconfig,
        # Without it a new token or address would replace the provider and, with it, every object
        # (pulumi-kubernetes issue 1148).
        cluster_identifier=identity,
        enable_server_side_apply=True,
        # The validation program is a ConfigMap: a new version is an update, not another object.
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        kube_client_settings={"timeout": API_SECONDS},
        opts=pulumi.ResourceOptions(parent=parent, additional_secret_outputs=["kubeconfig"]),
    )
