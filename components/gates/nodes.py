"""The workload cluster's nodes against what engines, the DRA driver and the serving stack need of them.

Deliberately not judged: node readiness (it comes and goes) and cluster size. A pool without a node is no fault by
itself, since an autoscaler may bring one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from components.gates.kube import Manifest
from modelplane.names import POOL_LABEL

GPU_TAINT = "nvidia.com/gpu"
# Engine pods tolerate it with this effect only; PreferNoSchedule keeps nobody away.
TOLERATED = (GPU_TAINT, "NoSchedule")
REPELLING = ("NoSchedule", "NoExecute")
# The DRA driver's kubelet plugin runs on nodes with one of these (its chart's node affinity); NFD sets the first four.
GPU_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "feature.node.kubernetes.io/pci-0300_10de.present": "true",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA",
    "nvidia.com/gpu.present": "true",
}
# Set and removed by Kubernetes, a network plugin, a storage driver or an autoscaler: a state of the moment, not the
# pool's shape.
TRANSIENT_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cilium.io/",
    "ebs.csi.aws.com/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
# Older kubelets deadlock: after half an hour without a claim the next pod that has one never starts.
OLDEST_KUBELET = (1, 34, 2)
# Modelplane's own floor for inference clusters.
WANTED_KUBELET = (1, 35, 0)
_KUBELET = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def of_pool(nodes: Iterable[Manifest], pool: str) -> list[Manifest]:
    """The nodes that engine pods of this pool may run on."""
    return [node for node in nodes if labels_of(node).get(POOL_LABEL) == pool]


def no_node(pool: str) -> str:
    """What is said of a pool without a node."""
    return (
        f"no node of the workload cluster carries {POOL_LABEL}={pool}, so engine pods would stay Pending until one "
        f"does; `kubectl label node GPU_NODE {POOL_LABEL}={pool} nvidia.com/gpu.present=true`, or give the pool a "
        "minimum of 1 node"
    )


def node_problems(nodes: Sequence[Manifest], pool: str) -> list[str]:
    """What keeps engines or the serving stack off the nodes, a sentence each."""
    found = []
    for node in of_pool(nodes, pool):
        name = node["metadata"]["name"]
        foreign = [taint for taint in _taints(node) if (taint["key"], taint["effect"]) != TOLERATED]
        if foreign:
            shown = ", ".join(f"{taint['key']}:{taint['effect']}" for taint in foreign)
            found.append(
                f"GPU node {name} has the taint {shown}, but engine pods tolerate only "
                f"{GPU_TAINT}:NoSchedule; remove it"
            )
        if not any(labels_of(node).get(key) == value for key, value in GPU_LABELS.items()):
            found.append(
                f"GPU node {name} has no label by which the DRA driver finds NVIDIA hardware, so "
                "no GPU would be published; "
                f"`kubectl label node {name} nvidia.com/gpu.present=true`"
            )
        version = _kubelet(node)
        if version is not None and version < OLDEST_KUBELET:
            found.append(
                f"GPU node {name} has kubelet {_shown_kubelet(node)}: before {_dotted(OLDEST_KUBELET)} a pod that "
                "claims a GPU after half an hour without one never starts (kubernetes issue 133926); upgrade the node "
                f"pool to {_dotted(WANTED_KUBELET[:2])}"
            )
    if nodes and not any(not _taints(node) for node in nodes):
        found.append(
            "every node of the workload cluster is tainted, but the endpoint picker, Envoy, "
            "cert-manager and Prometheus tolerate nothing; "
            "add a node without taints"
        )
    return found


def node_warnings(nodes: Sequence[Manifest], pool: str, count: int) -> list[str]:
    """What a person should know of the nodes before the stack is made, a sentence each. count: as declared."""
    gpu = of_pool(nodes, pool)
    if not gpu:
        return [no_node(pool)]
    found = []
    if len(gpu) != count:
        remedy = f"set it to {len(gpu)}" + (", unless the pool scales up" if len(gpu) < count else "")
        found.append(
            f"platform.nodePool.nodeCount: {count}: nodes that carry {POOL_LABEL}={pool}: {len(gpu)}; Modelplane "
            f"schedules by the declared number alone; {remedy}"
        )
    for node in gpu:
        name, version = node["metadata"]["name"], _kubelet(node)
        if version is None:
            found.append(
                f"GPU node {name} does not tell its kubelet's version ({_shown_kubelet(node) or 'nothing'}); it must "
                f"be {_dotted(OLDEST_KUBELET)} or newer"
            )
        elif OLDEST_KUBELET <= version < WANTED_KUBELET:
            found.append(
                f"GPU node {name} has kubelet {_shown_kubelet(node)}, older than Modelplane's floor; upgrade the node "
                f"pool to {_dotted(WANTED_KUBELET[:2])}"
            )
    return found


def labels_of(node: Manifest) -> dict[str, Any]:
    """A node's labels."""
    return node["metadata"].get("labels") or {}


def _taints(node: Manifest) -> list[dict[str, Any]]:
    """The taints that keep pods away for good."""
    return [
        taint
        for taint in node.get("spec", {}).get("taints") or []
        if taint.get("effect") in REPELLING and not taint["key"].startswith(TRANSIENT_TAINTS)
    ]


def _shown_kubelet(node: Manifest) -> str:
    return str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion") or "")


def _kubelet(node: Manifest) -> tuple[int, ...] | None:
    """The kubelet's version, such as v1.34.1-gke.1829001; None when the node does not tell."""
    found = _KUBELET.match(_shown_kubelet(node))
    return tuple(map(int, found.groups())) if found else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
