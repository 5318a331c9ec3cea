"""InferenceCluster with source Existing: a provider config and a ServingStack on the cluster that a kubeconfig Secret
names.

Its capacity is what its node pools declare (`nodes` is never counted on the real cluster). Provisioned sources stay at
ClusterReady=False: the sandbox has no clouds.
"""

from __future__ import annotations

from modelplane.names import CLUSTER_LABEL, SYSTEM_NAMESPACE, cluster_provider_config_name, serving_stack_name
from sandbox.functions.model import API_VERSION, LATER, SOON, Desired, Manifest, Observed, Selector, Settings, dig
from sandbox.functions.objects import provider_config

STACK = "serving-stack"
PROVIDER_CONFIG = "cluster-provider-config-kubernetes"
GUARD = "usage-replicas"


def compose(observed: Observed, settings: Settings) -> Desired:  # noqa: ARG001
    desired = Desired(ttl=LATER)
    _guard_replicas(observed, desired)
    classes = _classes(observed, desired)
    if classes is None:
        return desired
    if dig(observed.spec, "cluster", "source") != "Existing":
        desired.lacks("ClusterReady", "Provisioning", "the sandbox has no clouds: only source Existing is played")
        desired.composite_ready = False
        return desired

    secret = observed.spec["cluster"]["existing"]["secretRef"]
    name = cluster_provider_config_name(observed.name)
    credentials = {"namespace": SYSTEM_NAMESPACE, "name": secret["name"], "key": secret.get("key", "kubeconfig")}
    desired.add(
        PROVIDER_CONFIG,
        provider_config("ClusterProviderConfig", name, credentials),
        ready=PROVIDER_CONFIG in observed.resources,
    )
    stack_ready = observed.is_true(STACK)
    desired.add(STACK, _serving_stack(observed.name, credentials), ready=stack_ready)

    desired.status = {
        "namespace": SYSTEM_NAMESPACE,
        "providerConfigRef": {"name": name},
        "gpuPools": _gpu_pools(observed.spec.get("nodePools", []), classes),
    }
    address = dig(observed.resources.get(STACK), "status", "gateway", "address")
    if address:
        desired.status["gateway"] = {"address": address}
    desired.holds("ClusterReady", "ClusterRunning")
    desired.condition("BackendReady", stack_ready, "BackendHealthy" if stack_ready else "Installing")
    return desired


def _guard_replicas(observed: Observed, desired: Desired) -> None:
    """No deletion of the cluster while replicas are scheduled to it, whatever else is missing."""
    desired.requires["model-replicas"] = Selector("ModelReplica", labels={CLUSTER_LABEL: observed.name})
    if not observed.required.get("model-replicas"):
        return
    guard = {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "ClusterUsage",
        "spec": {
            "of": {"apiVersion": API_VERSION, "kind": "InferenceCluster", "resourceRef": {"name": observed.name}},
            "reason": "ModelReplicas are scheduled to this InferenceCluster",
            "replayDeletion": True,
        },
    }
    desired.add(GUARD, guard, ready=True)


def _classes(observed: Observed, desired: Desired) -> dict[str, Manifest] | None:
    """The InferenceClasses that the node pools name, or None (with the reason as a condition) while one is missing."""
    names = sorted({pool["className"] for pool in observed.spec.get("nodePools", [])})
    found: dict[str, Manifest] = {}
    for name in names:
        desired.requires[f"class-{name}"] = Selector("InferenceClass", name=name)
        if (manifest := observed.required_one(f"class-{name}")) is not None:
            found[name] = manifest
    missing = [name for name in names if name not in found]
    if not missing:
        return found
    desired.ttl = SOON
    desired.lacks("ClusterReady", "WaitingForClasses", f"Waiting for InferenceClasses: {', '.join(missing)}")
    return None


def _serving_stack(cluster: str, credentials: Manifest) -> Manifest:
    return {
        "apiVersion": f"infrastructure.{API_VERSION}",
        "kind": "ServingStack",
        "metadata": {"name": serving_stack_name(cluster), "namespace": SYSTEM_NAMESPACE},
        # No nvidiaDriverRoot for Existing clusters: whoever needs another patches it under an own field manager.
        "spec": {"secrets": [{"type": "Kubeconfig", "name": credentials["name"], "key": credentials["key"]}]},
    }


def _gpu_pools(pools: list[Manifest], classes: dict[str, Manifest]) -> list[Manifest]:
    return [
        {
            "name": pool["name"],
            "nodes": pool.get("maxNodeCount", pool.get("nodeCount", 1)),
            "devices": classes[pool["className"]]["spec"]["devices"],
        }
        for pool in pools
    ]
