"""A PodMonitor, so that the Prometheus on the workload cluster scrapes the engines: nothing does by default.

Modelplane's serving stack brings the kind and a Prometheus that takes PodMonitors of every namespace; both go with the
InferenceCluster, so the PodMonitor goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from components.cluster import Cluster
from components.gates import resources as gates
from components.manifest import KubernetesObject
from modelplane.names import ENGINE_NAMESPACE, SERVING_LABEL
from validation.pods import PORT

API_VERSION, KIND, NAME = "monitoring.coreos.com/v1", "PodMonitor", "speculation-engines"
# As the Prometheus operator's default; the dashboard's rates need two scrapes in a minute.
INTERVAL = "30s"


@dataclass(frozen=True)
class MonitoringArgs:
    """replicas: names of the ModelReplicas; timeout: for the kind to be served, e.g. "10m"."""

    workload: Cluster
    replicas: Output[list[str]]
    timeout: str
    depends_on: tuple[pulumi.Resource, ...] = ()


class Monitoring(pulumi.ComponentResource):
    """The engines' metrics in the workload cluster's Prometheus."""

    def __init__(self, name: str, args: MonitoringArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("speculation:components:Monitoring", name, {}, opts)
        served = gates.KindServed(
            f"{name}-kind",
            kubeconfig=args.workload.kubeconfig,
            api_version=API_VERSION,
            kind=KIND,
            brought_by="the chart kube-prometheus-stack of Modelplane's serving stack",
            remedy="`kubectl get servingstacks,releases -A` on the control plane shows why it did not, or set "
            "speculation:monitoring.podMonitor to false",
            timeout=args.timeout,
            opts=ResourceOptions(parent=self, depends_on=[*args.workload.ready, *args.depends_on]),
        )
        KubernetesObject(
            f"{name}-engines",
            pod_monitor(args.replicas),
            ResourceOptions(parent=self, provider=args.workload.provider, depends_on=[served]),
        )
        self.register_outputs({})


def pod_monitor(replicas: pulumi.Input[Sequence[str]]) -> Mapping[str, Any]:
    """The PodMonitor of this stack's engines; Modelplane's pods name no port."""
    selector = {"matchExpressions": [{"key": SERVING_LABEL, "operator": "In", "values": replicas}]}
    endpoint = {"targetPort": PORT, "path": "/metrics", "interval": INTERVAL}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": ENGINE_NAMESPACE},
        "spec": {"selector": selector, "podMetricsEndpoints": [endpoint]},
    }
