"""ModelDeployment: replicas on clusters with room for them, and an endpoint for each replica that is Ready.

Kept from Modelplane, since the stack has to live with it: with no matching cluster nothing is composed, which
Crossplane calls Ready=True; a partial placement says ReplicasScheduled=True; endpoints come and go with their replica's
readiness.
"""

from __future__ import annotations

from modelplane.names import CLUSTER_LABEL, DEPLOYMENT_LABEL, REPLICA_INDEX_LABEL, replica_name, route_path
from sandbox.functions.model import API_VERSION, LATER, SOON, Desired, Manifest, Observed, Selector, Settings, dig
from sandbox.functions.scheduling import InvalidSelectorError, Placement, place

REPLICA = "ModelReplica"


def compose(observed: Observed, settings: Settings) -> Desired:  # noqa: ARG001
    desired = Desired(ttl=SOON)
    template = observed.spec["template"]
    selector = dig(template, "spec", "clusterSelector", "matchLabels") or {}
    desired.requires["clusters"] = Selector("InferenceCluster", labels=selector)
    desired.requires["all-replicas"] = Selector(REPLICA)
    clusters = list(observed.required.get("clusters", ()))
    if not clusters:
        desired.lacks("ReplicasScheduled", "NoClusters")
        desired.warnings.append("No InferenceClusters found")
        return desired

    wanted = int(observed.spec["replicas"])
    own = [manifest for manifest in observed.resources.values() if manifest["kind"] == REPLICA]
    try:
        placements = place(template["spec"], wanted, clusters, own, _others(observed))
    except InvalidSelectorError as error:
        message = f"Invalid nodeSelector CEL expression: {error}"
        desired.lacks("ReplicasScheduled", "InvalidNodeSelector", message)
        desired.warnings.append(message)
        desired.composite_ready = False
        return desired

    for placement in placements:
        _add_replica(desired, observed, placement)
    _say_what_is_placed(desired, observed, placements, wanted, len(clusters))
    return desired


def _others(observed: Observed) -> list[Manifest]:
    """Replicas of other deployments: what they hold is not free."""

    def ours(replica: Manifest) -> bool:
        meta = replica["metadata"]
        deployment = meta.get("labels", {}).get(DEPLOYMENT_LABEL)
        return bool(deployment == observed.name and meta["namespace"] == observed.namespace)

    return [replica for replica in observed.required.get("all-replicas", ()) if not ours(replica)]


def _add_replica(desired: Desired, observed: Observed, placement: Placement) -> None:
    template = observed.spec["template"]
    key = f"replica-{placement.cluster}-{placement.index}"
    name = replica_name(observed.name, placement.cluster, placement.index)
    labels = {
        **template.get("metadata", {}).get("labels", {}),
        DEPLOYMENT_LABEL: observed.name,
        CLUSTER_LABEL: placement.cluster,
        REPLICA_INDEX_LABEL: str(placement.index),
    }
    metadata = {"name": name, "namespace": observed.namespace, "labels": labels}
    inherited = {field: template["spec"][field] for field in ("serving", "modelCacheRef") if field in template["spec"]}
    spec = {"clusterName": placement.cluster, "engines": placement.engines, **inherited}
    ready = observed.is_true(key)
    replica = {"apiVersion": API_VERSION, "kind": REPLICA, "metadata": metadata, "spec": spec}
    desired.add(key, replica, ready=ready)
    if not (ready and placement.address):
        return
    path = route_path(observed.namespace, name)
    endpoint = {
        "apiVersion": API_VERSION,
        "kind": "ModelEndpoint",
        "metadata": metadata,
        "spec": {"url": f"http://{placement.address}{path}v1", "rewritePath": path},
    }
    endpoint_key = f"endpoint-{placement.cluster}-{placement.index}"
    desired.add(endpoint_key, endpoint, ready=observed.is_true(endpoint_key))


def _say_what_is_placed(
    desired: Desired, observed: Observed, placements: list[Placement], wanted: int, clusters: int
) -> None:
    placed = len(placements)
    keys = [f"replica-{p.cluster}-{p.index}" for p in placements]
    ready = sum(observed.is_true(key) for key in keys)
    desired.status = {"replicas": {"total": placed, "ready": ready}}
    if not placed:
        message = f"0 of {wanted} replicas scheduled (checked {clusters} clusters)"
        desired.lacks("ReplicasScheduled", "InsufficientCapacity", message)
        desired.lacks("ReplicasReady", "NoReplicasScheduled")
        desired.composite_ready = False
        return
    if any(key in observed.resources for key in keys):
        desired.holds("ReplicasScheduled", "ReplicasCreated", f"Scheduled {placed} of {wanted} replicas")
    else:
        desired.lacks("ReplicasScheduled", "Scheduling")
    all_ready = ready == placed
    reason = "AllReplicasReady" if all_ready else "ModelStarting"
    desired.condition("ReplicasReady", all_ready, reason, f"{ready} of {placed} ready")
    if all_ready and placed == wanted:
        desired.ttl = LATER
