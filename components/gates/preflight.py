"""What engine pods meet on the workload cluster, read and judged before an engine is waited for.

Asked twice: before anything is declared (clusters.py), and, with what only the serving stack brings, before the model
is (device.py). What the kubeconfig may not read is told as a warning and judged by nobody.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from components.gates.errors import KubeError
from components.gates.kube import Kube, Manifest, path
from components.gates.nodes import node_problems, node_warnings
from components.gates.quota import quota_problems
from modelplane.names import ENGINE_NAMESPACE, SERVING_LABEL

# Kubernetes sets VLLM_PORT to the address of a Service of this name in every pod beside it, and vLLM exits on it.
FATAL_SERVICE = "vllm"


@dataclass(frozen=True)
class Surroundings:
    """The workload cluster's nodes, and of the engines' namespace: quotas, LimitRanges, whether a Service has the
    fatal name, whether engines run, and Secrets that a recipe reads and nobody made (a clause each).

    unread: what could not be read, a sentence each.
    """

    nodes: tuple[Manifest, ...] = ()
    quotas: tuple[Manifest, ...] = ()
    limit_ranges: tuple[Manifest, ...] = ()
    fatal_service: bool = False
    engines: bool = False
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def problems(self, pool: str, device_class: str = "") -> list[str]:
        """What would keep an engine from running, a sentence each: found, consequence, remedy."""
        return [
            *node_problems(self.nodes, pool),
            *quota_problems(self.quotas, self.limit_ranges, device_class=device_class, running=self.engines),
            *self._service(),
            *(
                f"{clause}, so engine pods would not start; make it in namespace {ENGINE_NAMESPACE} of the workload "
                "cluster, or have this stack make it (speculation:secrets)"
                for clause in self.absent
            ),
        ]

    def warnings(self, pool: str, count: int) -> list[str]:
        """What a person should know, a sentence each."""
        return [*node_warnings(self.nodes, pool, count), *self.unread]

    def _service(self) -> list[str]:
        if not self.fatal_service:
            return []
        return [
            f"Service {ENGINE_NAMESPACE}/{FATAL_SERVICE} on the workload cluster makes Kubernetes set VLLM_PORT to its "
            "address in every engine pod, and vLLM refuses to start with it (vLLM issue 34199); rename that Service"
        ]


def survey(kube: Kube, secrets: Iterable[Mapping[str, str]]) -> Surroundings:
    """Look once. secrets: [{name, key}] of namespace default that must be there; key "": any."""
    unread: list[str] = []

    def listed(what: str, url: str, labels: str = "") -> tuple[Manifest, ...]:
        try:
            return tuple(kube.list(url, labels=labels))
        except KubeError as error:
            if error.status != http.client.FORBIDDEN:
                raise
            unread.append(f"{what} of the workload cluster are not checked: {error}")
            return ()

    def inside(plural: str) -> str:
        return path("v1", plural, namespace=ENGINE_NAMESPACE)

    services = listed("Services", inside("services"))
    return Surroundings(
        # Without nodes nothing can be said at all: not to be allowed to read them is an error.
        nodes=tuple(kube.list(path("v1", "nodes"))),
        quotas=listed("ResourceQuotas", inside("resourcequotas")),
        limit_ranges=listed("LimitRanges", inside("limitranges")),
        fatal_service=any(service["metadata"]["name"] == FATAL_SERVICE for service in services),
        engines=bool(listed("engine pods", inside("pods"), SERVING_LABEL)),
        absent=tuple(_absent(kube, secrets, unread)),
        unread=tuple(unread),
    )


def no_address(which: str) -> tuple[str, str]:
    """Cause and remedy when all but the address of a cluster's gateway is there."""
    return (
        f"{which} gives the gateway's Service of type LoadBalancer no address",
        "`kubectl get services -A` there; outside a cloud it needs a load balancer such as MetalLB",
    )


def _absent(kube: Kube, secrets: Iterable[Mapping[str, str]], unread: list[str]) -> Iterable[str]:
    for secret in secrets:
        name, key = secret["name"], secret.get("key", "")
        try:
            found = kube.find(path("v1", "secrets", namespace=ENGINE_NAMESPACE, name=name))
        except KubeError as error:
            if error.status != http.client.FORBIDDEN:
                raise
            unread.append(f"Secret {name} of the workload cluster is not checked: {error}")
            continue
        if found is None:
            yield f"Secret {ENGINE_NAMESPACE}/{name}, which the recipe names, is not there"
        elif key and key not in (found.get("data") or {}):
            yield f"Secret {ENGINE_NAMESPACE}/{name} has no key {key}, which the recipe reads"
