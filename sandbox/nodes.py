"""The clusters' nodes: real objects whose heartbeats, leases and kubelet endpoint come from kwok.

Claims: node objects with capacity, a Ready condition that is renewed, leases, `kubectl logs` (--follow, --previous).
Does not claim: a kubelet. kwok never touches a pod (its only pod stage matches none): the runner owns them. No exec,
attach or port-forward.

A pod's log is served once its `Logs` object exists (see `logs_manifest`): the runner applies it when it takes the pod.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx2
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import GenericNamespacedResource, create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Node, NodeStatus, ServiceAccount

from engine.findings import Finding, Problems, Severity
from sandbox import state
from sandbox.binaries import KUBERNETES_VERSION, installed
from sandbox.clusters import component_kubeconfig
from sandbox.layout import CLUSTERS, LOOPBACK, ClusterLayout, ClusterName, Layout
from sandbox.probes import https_ok
from sandbox.processes import Process

FIELD_MANAGER = "sandbox"
# What the API server's own defaults are, so that leases look as a kubelet's do. Seconds.
_LEASE_SECONDS = 40
# A kubelet refreshes an unchanged status every 5 minutes; the lease shows that it lives.
_STATUS_MILLISECONDS = 300_000
# A new node carries it until the node controller has seen its Ready condition.
_NOT_READY = "node.kubernetes.io/not-ready"
# Takes one or two seconds; on a machine that is busy otherwise, many times that.
_SETTLE_SECONDS = 60
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class NodeSpec:
    """One node: labels, taints (key, value, effect) and size."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    cpu: str = "8"
    memory: str = "32Gi"


NODES: dict[ClusterName, tuple[NodeSpec, ...]] = {
    "control-plane": (NodeSpec("control-1", {"modelplane.ai/pool": "system"}),),
    "workload": (
        # As a GPU node pool comes from GKE or EKS with a DRA driver: 8 CPUs and 32 GB beside one L4.
        NodeSpec(
            "gpu-1",
            {"modelplane.ai/pool": "gpu", "nvidia.com/gpu.present": "true"},
            (("nvidia.com/gpu", "present", "NoSchedule"),),
        ),
        NodeSpec("system-1", {"modelplane.ai/pool": "system"}),
    ),
}

Logs: type[GenericNamespacedResource] = create_namespaced_resource("kwok.x-k8s.io", "v1alpha1", "Logs", "logs")


def client(cluster: ClusterLayout, namespace: str = "default") -> Client:
    """An admin's client of a cluster."""
    config = KubeConfig.from_file(cluster.kubeconfig)
    # No proxy of the user's environment lies between this machine and itself.
    return Client(config, namespace=namespace, field_manager=FIELD_MANAGER, trust_env=False)


def prepare(layout: Layout) -> None:
    """Write kwok's configuration."""
    for name in CLUSTERS:
        state.write(_config(layout.cluster(name)), yaml.safe_dump_all(_stages(), sort_keys=False))


def processes(layout: Layout) -> list[Process]:
    """kwok for both clusters; `apply` comes before it."""
    return [_kwok(layout, layout.cluster(name)) for name in CLUSTERS]


def apply(layout: Layout) -> None:
    """The node objects and kwok's Logs type, on both (answering) clusters. Idempotent."""
    for name in CLUSTERS:
        cluster = layout.cluster(name)
        api = client(cluster)
        api.apply(cast("CustomResourceDefinition", CustomResourceDefinition.from_dict(_logs_type())), force=True)
        for spec in NODES[name]:
            node = node_manifest(spec)
            api.apply(cast("Node", Node.from_dict(node)), force=True)
            status = {**node, "metadata": {"name": spec.name}, "status": node_status(cluster, spec)}
            api.apply(cast("NodeStatus", NodeStatus.from_dict(status)), name=spec.name, force=True)


def settle(layout: Layout) -> None:
    """Wait until pods can be made and scheduled: no node has the taint of a new one, the default account is there.

    Problems, one line, when that takes unreasonably long.
    """
    expected = {spec.name for name in CLUSTERS for spec in NODES[name]}
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not (expected <= set(ready_nodes(layout)) and all(_has_default_account(layout.cluster(n)) for n in CLUSTERS)):
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(expected - set(ready_nodes(layout)))) or "the default service accounts"
            why = f"not ready after {_SETTLE_SECONDS} s: {missing}"
            remedy = f"see the logs of kwok and controller-manager in {layout.logs}"
            raise Problems([Finding(Severity.ERROR, "nodes", None, why, remedy)])
        time.sleep(_POLL_SECONDS)


def ready_nodes(layout: Layout) -> list[str]:
    """Names of the nodes that are Ready and take pods, on both clusters; none of a cluster that does not answer."""
    found: list[str] = []
    for name in CLUSTERS:
        with contextlib.suppress(ApiError, OSError, httpx2.HTTPError):
            nodes = client(layout.cluster(name)).list(Node)
            found += [
                node.metadata.name for node in nodes if _takes_pods(node) and node.metadata and node.metadata.name
            ]
    return found


def _takes_pods(node: Node) -> bool:
    conditions = (node.status.conditions if node.status else None) or []
    taints = (node.spec.taints if node.spec else None) or []
    ready = any(item.type == "Ready" and item.status == "True" for item in conditions)
    return ready and not any(item.key == _NOT_READY for item in taints)


def _has_default_account(cluster: ClusterLayout) -> bool:
    try:
        return bool(client(cluster).get(ServiceAccount, "default"))
    except ApiError:
        return False


def node_manifest(spec: NodeSpec) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "local-a",
    }
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in spec.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": {**labels, **spec.labels}},
        "spec": {"taints": taints} if taints else {},
    }


def node_status(cluster: ClusterLayout, spec: NodeSpec) -> dict[str, Any]:
    """What a kubelet reports once: size, addresses, its own endpoint. The conditions are kwok's."""
    size = {"cpu": spec.cpu, "memory": spec.memory, "ephemeral-storage": "100Gi", "pods": "110"}
    return {
        "capacity": size,
        "allocatable": size,
        "addresses": [{"type": "InternalIP", "address": LOOPBACK}, {"type": "Hostname", "address": spec.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": cluster.kubelet_port}},
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": KUBERNETES_VERSION,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "sandbox://1",
            "osImage": "sandbox",
            "kernelVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


def logs_manifest(namespace: str, pod: str, uid: str, files: Iterable[tuple[str, Path, Path]]) -> dict[str, Any]:
    """The object that makes `kubectl logs` of one pod work; it is collected with the pod.

    files: (container, log of the running or last instance, log of the one before); CRI format. The paths are read at
    each request, so they may be links that the runner moves at a restart.
    """
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Logs",
        "metadata": {"name": pod, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {
            "logs": [
                {"containers": [name], "logsFile": str(log), "previousLogsFile": str(previous), "follow": True}
                for name, log, previous in files
            ]
        },
    }


def _kwok(layout: Layout, cluster: ClusterLayout) -> Process:
    return Process(
        name=f"{cluster.name}-kwok",
        argv=(
            installed(layout, "kwok"),
            f"--config={_config(cluster)}",
            f"--kubeconfig={component_kubeconfig(cluster, 'kwok')}",
            "--manage-all-nodes",
            f"--node-ip={LOOPBACK}",
            f"--node-port={cluster.kubelet_port}",
            f"--server-address={LOOPBACK}:{cluster.kubelet_port}",
            f"--tls-cert-file={cluster.pki / 'kubelet.crt'}",
            f"--tls-private-key-file={cluster.pki / 'kubelet.key'}",
            f"--node-lease-duration-seconds={_LEASE_SECONDS}",
            "--enable-crds=Logs",
            "--v=WARN",
        ),
        ready=https_ok(cluster.kubelet_port, "/healthz", cluster.pki),
        after=(f"{cluster.name}-apiserver",),
        ports=(cluster.kubelet_port,),
        files=(_config(cluster), component_kubeconfig(cluster, "kwok")),
    )


def _config(cluster: ClusterLayout) -> Path:
    return cluster.config / "kwok.yaml"


def _stages() -> list[dict[str, Any]]:
    ready_is = {"key": '.status.conditions.[] | select( .type == "Ready" ) | .status', "values": ["True"]}
    return [
        _stage("node-ready", "Node", {"matchExpressions": [{**ready_is, "operator": "NotIn"}]}, 0),
        _stage("node-heartbeat", "Node", {"matchExpressions": [{**ready_is, "operator": "In"}]}, _STATUS_MILLISECONDS),
        # Without any pod stage kwok would play its default ones.
        _stage("no-pod", "Pod", {"matchLabels": {"sandbox.invalid/never": "true"}}, 0),
    ]


def _stage(name: str, kind: str, selector: dict[str, Any], delay_milliseconds: int) -> dict[str, Any]:
    template = _CONDITIONS if kind == "Node" else "phase: Pending"
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": selector,
            "delay": {"durationMilliseconds": delay_milliseconds},
            "next": {"statusTemplate": template},
        },
    }


# Go template: the conditions that a healthy kubelet reports; NodeConditions is kwok's list of them.
_CONDITIONS = """\
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- {type: {{ .type | Quote }}, status: {{ .status | Quote }},
   reason: {{ .reason | Quote }}, message: {{ .message | Quote }},
   lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
"""


def _logs_type() -> dict[str, Any]:
    """kwok's Logs type, with a schema that lets its own reader decide."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "logs.kwok.x-k8s.io"},
        "spec": {
            "group": "kwok.x-k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "Logs", "listKind": "LogsList", "plural": "logs", "singular": "logs"},
            "versions": [version],
        },
    }
