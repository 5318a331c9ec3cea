"""What is still missing before an object does what it promises.

Pure functions on manifests as the API server returns them; an empty list means ready. Ready=True alone is not looked at
where it lies (seen with Modelplane v0.3.1 under Crossplane 2.3.4): Crossplane calls an object ready when it composes
nothing, so a ModelService without endpoints and a ModelDeployment without a cluster say Ready=True.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]


def gateway_missing(gateway: Manifest) -> list[str]:
    """InferenceGateway: reconciled, controller up, and an address. Ready comes before the address does."""
    missing = [*_unseen(gateway), *_not_true(gateway, "ControllerReady", "Ready")]
    if not _get(gateway, "status", "address"):
        missing.append("no status.address: the load balancer of the control plane's gateway has none yet")
    return missing


def cluster_missing(cluster: Manifest) -> list[str]:
    """InferenceCluster: ready, a gateway address, and the declared node pools offered to the scheduler.

    Without a gateway address no replica is placed on the cluster, whatever its conditions say.
    """
    missing = [*_unseen(cluster), *_not_true(cluster, "ClusterReady", "BackendReady", "Ready")]
    if not _get(cluster, "status", "gateway", "address"):
        missing.append("no status.gateway.address: the load balancer of the workload cluster's gateway has none yet")
    offered = {pool.get("name") for pool in _list(cluster, "status", "gpuPools")}
    declared = [pool.get("name") for pool in _list(cluster, "spec", "nodePools")]
    missing += [f"node pool {name} is not in status.gpuPools" for name in declared if name not in offered]
    return missing


def deployment_missing(deployment: Manifest) -> list[str]:
    """ModelDeployment: as many replicas ready as declared. ReplicasScheduled is True even when some do not fit."""
    missing = _unseen(deployment)
    wanted = _get(deployment, "spec", "replicas")
    ready = _get(deployment, "status", "replicas", "ready") or 0
    if ready != wanted:
        total = _get(deployment, "status", "replicas", "total") or 0
        missing.append(f"{ready} of {wanted} replicas ready, {total} scheduled")
        missing += _not_true(deployment, "ModelCacheResolved", optional=True)
        missing += _not_true(deployment, "ReplicasScheduled", "ReplicasReady", "Synced")
    return missing


def endpoint_missing(endpoint: Manifest) -> list[str]:
    """ModelEndpoint: reconciled (an address that an EndpointSlice refuses leaves it Synced=False) and routable."""
    missing = [*_unseen(endpoint), *_not_true(endpoint, "Synced", "RoutingReady")]
    if not _get(endpoint, "status", "routing", "backendName"):
        missing.append("no status.routing.backendName: it has no Service on the control plane yet")
    return missing


def service_missing(service: Manifest) -> list[str]:
    """ModelService: endpoints resolved, routing ready, address. Only an HTTP 200 proves more."""
    missing = [*_unseen(service), *_not_true(service, "EndpointsResolved", "RoutingReady")]
    if not _get(service, "status", "address"):
        missing.append("no status.address: the control plane's gateway has none yet")
    return missing


def xrd_missing(definition: Manifest) -> list[str]:
    """CompositeResourceDefinition: established in its current generation.

    Established stays True when a newer schema is refused; only the generations tell (and a Warning event why).
    """
    generation = _get(definition, "metadata", "generation")
    observed = _condition(definition, "Established").get("observedGeneration")
    missing = _not_true(definition, "Established")
    if not missing and isinstance(generation, int) and isinstance(observed, int) and observed < generation:
        missing = [f"Established is of generation {observed}, the schema of generation {generation} is not served"]
    return missing


def _unseen(manifest: Manifest) -> list[str]:
    """Status that is older than the spec says nothing about it: Crossplane notes the generation in Synced."""
    generation = _get(manifest, "metadata", "generation")
    observed = _condition(manifest, "Synced").get("observedGeneration")
    if isinstance(generation, int) and isinstance(observed, int) and observed < generation:
        return [f"the status is of generation {observed}, the spec of generation {generation}"]
    return []


def _not_true(manifest: Manifest, *types: str, optional: bool = False) -> list[str]:
    """Conditions that are not True, with reason and message; optional: an absent one is fine."""
    missing = []
    for name in types:
        condition = _condition(manifest, name)
        if condition.get("status") == "True" or (optional and not condition):
            continue
        detail = ", ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
        state = condition.get("status") or "not reported"
        missing.append(f"{name} is {state}" + (f" ({detail})" if detail else ""))
    return missing


def _condition(manifest: Manifest, name: str) -> Manifest:
    conditions = _list(manifest, "status", "conditions")
    return next((condition for condition in conditions if condition.get("type") == name), {})


def _get(node: object, *keys: str) -> Any:  # noqa: ANN401 - whatever the API server has there
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _list(node: object, *keys: str) -> list[Manifest]:
    found = _get(node, *keys)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
