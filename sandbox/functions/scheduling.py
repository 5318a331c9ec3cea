"""Where replicas go: Modelplane's placement, as a pure function of what clusters declare and what replicas hold.

Capacity is whole nodes that a cluster declares; nothing is seen of the real cluster. A placed replica is never moved to
improve the placement. One engine lands on one node pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelplane.cel import matches
from modelplane.names import CLUSTER_LABEL, REPLICA_INDEX_LABEL
from sandbox.functions.model import Manifest, dig, is_true

# (cluster, pool) -> nodes
Usage = Counter[tuple[str, str]]


class InvalidSelectorError(ValueError):
    """A device selector that is not CEL; the text is the compiler's."""


@dataclass(frozen=True)
class Placement:
    """One replica: its cluster, its index there, the cluster's gateway address, its engines with pool and devices."""

    cluster: str
    index: int
    address: str | None
    engines: list[Manifest]


def place(
    spec: Manifest, wanted: int, clusters: Sequence[Manifest], own: Iterable[Manifest], others: Iterable[Manifest]
) -> list[Placement]:
    """Placements of a deployment, kept ones first. spec: spec.template.spec; own, others: ModelReplicas.

    InvalidSelectorError for a selector that does not compile.
    """
    by_name = {cluster["metadata"]["name"]: cluster for cluster in clusters}
    used: Usage = Counter()
    for replica in others:
        used.update(_held(replica["spec"]["clusterName"], replica["spec"]["engines"]))
    kept = [replica for replica in own if _stays(replica, by_name, spec.get("tolerations", []))]
    kept.sort(key=lambda replica: (replica["metadata"]["labels"][CLUSTER_LABEL], _index(replica)))
    placements = [_keep(spec, replica, by_name) for replica in kept[:wanted]]
    for placement in placements:
        used.update(_held(placement.cluster, placement.engines))

    while len(placements) < wanted:
        found = _next(spec, by_name, used, placements)
        if found is None:
            break
        placements.append(found)
        used.update(_held(found.cluster, found.engines))
    return placements


def _stays(replica: Manifest, clusters: dict[str, Manifest], tolerations: list[Manifest]) -> bool:
    """A replica stays until its cluster goes or evicts it; a cluster that is not Ready keeps its replicas."""
    cluster = clusters.get(replica["spec"]["clusterName"])
    return cluster is not None and not _repelled(cluster, tolerations, {"NoExecute"})


def _keep(spec: Manifest, replica: Manifest, clusters: dict[str, Manifest]) -> Placement:
    """The replica where it is, with the engines of today; its pools stay."""
    name = replica["spec"]["clusterName"]
    engines = []
    before = {engine["name"]: engine for engine in replica["spec"]["engines"]}
    for engine in spec["engines"]:
        pools = {member["nodePoolName"] for member in before.get(engine["name"], {}).get("members", [])}
        pool = next((p for p in _pools(clusters[name]) if p["name"] in pools), None)
        resolved = _resolve(engine, pool) if pool else None
        engines.append(resolved or _as_before(engine, before.get(engine["name"])))
    return Placement(name, _index(replica), _address(clusters[name]), engines)


def _as_before(engine: Manifest, before: Manifest | None) -> Manifest:
    """An engine whose pool no longer matches: its members keep the pool and requests that they were created with."""
    if before is None:
        return engine
    kept = [
        {**_without_selector(member), **{k: old[k] for k in ("nodePoolName", "deviceRequests") if k in old}}
        for member, old in zip(engine["members"], before["members"], strict=False)
    ]
    return {**engine, "members": kept}


def _next(spec: Manifest, clusters: dict[str, Manifest], used: Usage, placements: list[Placement]) -> Placement | None:
    """The next replica: on the eligible cluster with the fewest of this deployment, tie by name, lowest free index."""
    counts = Counter(placement.cluster for placement in placements)
    for name in sorted(clusters, key=lambda name: (counts[name], name)):
        cluster = clusters[name]
        address = _address(cluster)
        if not (is_true(cluster, "Ready") and address):
            # Selectors are checked all the same, or a typing error would look like a lack of room.
            _check_selectors(spec)
            continue
        if _repelled(cluster, spec.get("tolerations", []), {"NoSchedule", "NoExecute"}):
            continue
        engines = _fit(spec["engines"], name, cluster, used)
        if engines is not None:
            taken = {placement.index for placement in placements if placement.cluster == name}
            index = next(i for i in range(len(taken) + 1) if i not in taken)
            return Placement(name, index, address, engines)
    return None


def _fit(engines: list[Manifest], name: str, cluster: Manifest, used: Usage) -> list[Manifest] | None:
    taken = Counter(used)
    fitted: list[Manifest] = []
    for engine in engines:
        for pool in _pools(cluster):
            resolved = _resolve(engine, pool)
            if resolved is None:
                continue
            cost = _held(name, [resolved])
            if all(taken[key] + nodes <= pool["nodes"] for key, nodes in cost.items()):
                taken.update(cost)
                fitted.append(resolved)
                break
        else:
            return None
    return fitted


def _resolve(engine: Manifest, pool: Manifest) -> Manifest | None:
    """The engine pinned to the pool, with its device requests resolved; None when the pool has no such devices."""
    members = []
    claimed = False
    for member in engine["members"]:
        requests = _match(dig(member, "nodeSelector", "devices") or [], pool["devices"])
        if requests is None:
            return None
        pinned = {**_without_selector(member), "nodePoolName": pool["name"]}
        if requests:
            pinned["deviceRequests"] = requests
            claimed = True
        members.append(pinned)
    return {**engine, "members": members} if claimed else None


def _match(requests: list[Manifest], devices: list[Manifest]) -> list[Manifest] | None:
    """Greedy: a request takes the first device with enough left that all selectors accept; DRA devices are claimed."""
    left = {device["name"]: device.get("count", 1) for device in devices}
    claims: list[Manifest] = []
    for request in requests:
        count = request.get("count", 1)
        device = next((d for d in devices if left[d["name"]] >= count and _accepts(request["selectors"], d)), None)
        if device is None:
            return None
        left[device["name"]] -= count
        if device.get("claim", "DRA") == "DRA":
            claims.append(
                {
                    "name": request["name"],
                    "deviceClassName": device["deviceClassName"],
                    "count": count,
                    "selectors": request["selectors"],
                }
            )
    return claims


def _accepts(selectors: list[Manifest], device: Manifest) -> bool:
    expressions = [selector["cel"] for selector in selectors]
    attributes: dict[str, Any] = device.get("attributes", {})
    try:
        return matches(expressions, device["driver"], attributes, device.get("capacity", {}))
    except ValueError as error:
        raise InvalidSelectorError(str(error)) from None


def _check_selectors(spec: Manifest) -> None:
    device = {"driver": "none"}
    for engine in spec["engines"]:
        for member in engine["members"]:
            for request in dig(member, "nodeSelector", "devices") or []:
                _accepts(request["selectors"], device)


def _held(cluster: str, engines: Iterable[Manifest]) -> Usage:
    """Whole nodes: one for each pod, however few of a node's devices it claims."""
    held: Usage = Counter()
    for engine in engines:
        for member in engine["members"]:
            pods = dig(member, "worker", "nodes") or 1
            held[cluster, member["nodePoolName"]] += pods * engine.get("copies", 1)
    return held


def _repelled(cluster: Manifest, tolerations: list[Manifest], effects: set[str]) -> bool:
    taints = cluster["spec"].get("taints", [])
    return any(taint["effect"] in effects and not any(_tolerates(t, taint) for t in tolerations) for taint in taints)


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def _pools(cluster: Manifest) -> list[Manifest]:
    pools: list[Manifest] = dig(cluster, "status", "gpuPools") or []
    return pools


def _address(cluster: Manifest) -> str | None:
    address: str | None = dig(cluster, "status", "gateway", "address")
    return address


def _index(replica: Manifest) -> int:
    return int(replica["metadata"]["labels"][REPLICA_INDEX_LABEL])


def _without_selector(member: Manifest) -> Manifest:
    return {key: value for key, value in member.items() if key != "nodeSelector"}
