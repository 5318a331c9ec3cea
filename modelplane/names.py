"""Names that Modelplane derives, so that an object can be found before anyone lists it.

The formula is `child_name` of crossplane-function-sdk-python 0.15.1, as Modelplane v0.3.1 uses it.
"""

from __future__ import annotations

import hashlib
from typing import Final

# A Kubernetes label value holds 63 characters: 57, a hyphen and the hash.
_PREFIX_LENGTH = 57
_HASH_LENGTH = 5

API_VERSION: Final = "modelplane.ai/v1alpha1"
INFRASTRUCTURE_API_VERSION: Final = "infrastructure.modelplane.ai/v1alpha1"

GATEWAY_NAME = "default"  # of the InferenceGateway: a ModelService reads exactly this one, another is never found
SYSTEM_NAMESPACE = "modelplane-system"  # kubeconfig Secrets and ServingStacks; gateways on both clusters
ENGINE_NAMESPACE = "default"  # where the workload cluster runs engines, whatever the deployment's namespace is

# Labels of Modelplane's objects. Engine pods carry SERVING and WORKLOAD only; ModelReplicas and ModelEndpoints
# carry DEPLOYMENT, CLUSTER and REPLICA_INDEX.
DEPLOYMENT_LABEL = "modelplane.ai/deployment"
CLUSTER_LABEL = "modelplane.ai/cluster"
REPLICA_INDEX_LABEL = "modelplane.ai/replica-index"
SERVING_LABEL = "modelplane.ai/serving"
WORKLOAD_LABEL = "modelplane.ai/workload"
POOL_LABEL = "modelplane.ai/pool"


def child_name(*parts: str) -> str:
    """Name of a composed object: parts joined by hyphens, cut to 57 characters, plus 5 hex digits of their SHA-256."""
    joined = "-".join(parts)
    return f"{joined[:_PREFIX_LENGTH]}-{_digest(joined)}"


def replica_name(deployment: str, cluster: str, index: int) -> str:
    """Name of a ModelReplica and of its ModelEndpoint. The deployment's name is not cut."""
    return f"{deployment}-{_digest(f'{deployment}-{cluster}-{index}')}"


def serving_stack_name(cluster: str) -> str:
    """ServingStack of an InferenceCluster, in modelplane-system."""
    return child_name(cluster, "serving-stack")


def cluster_provider_config_name(cluster: str) -> str:
    """provider-kubernetes ClusterProviderConfig through which replicas reach an InferenceCluster."""
    return child_name(cluster, "cluster-kubeconfig")


def stack_provider_config_name(serving_stack: str) -> str:
    """ProviderConfig of provider-helm and of provider-kubernetes that a ServingStack composes for itself."""
    return child_name(serving_stack, "cluster")


def workload_name(replica: str, engine: str) -> str:
    """Deployment (or LeaderWorkerSet) of one engine on the workload cluster."""
    return child_name(replica, engine)


def claim_template_name(replica: str, engine: str, role: str) -> str:
    """ResourceClaimTemplate of one member; role as in the manifest, e.g. Standalone."""
    return child_name(replica, engine, role.lower(), "devices")


def pool_name(replica: str) -> str:
    """InferencePool of a replica on the workload cluster."""
    return f"{replica}-pool"


def picker_name(replica: str) -> str:
    """Endpoint picker of a replica: Deployment, Service, ServiceAccount, Role, RoleBinding and ConfigMap."""
    return f"{replica}-epp"


def route_path(namespace: str, name: str) -> str:
    """Path prefix of a replica on the workload gateway, and of a service on the control plane's gateway."""
    return f"/{namespace}/{name}/"


def service_address(gateway_address: str, namespace: str, service: str) -> str:
    """status.address of a ModelService: always http, no trailing slash, no /v1."""
    return f"http://{gateway_address}/{namespace}/{service}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
