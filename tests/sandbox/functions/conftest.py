"""Both clusters with real Crossplane, provider-kubernetes and the composition functions; nothing else.

No gateway and no runner: tests set the statuses that controllers and kubelets would, to look at each state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sandbox import binaries, commands, crossplane, supervisor
from sandbox.layout import Layout
from tests.sandbox.conftest import free_port_base
from tests.sandbox.kubectl import Kubectl

# What the tests' objects put on the workload cluster, directly or through what Kubernetes makes of it.
_KINDS = (
    "crds,namespaces,deployments,replicasets,services,configmaps,serviceaccounts,roles,rolebindings,resourcequotas,"
    "resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses"
)
SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}


@dataclass(frozen=True)
class Pair:
    """The two clusters of one sandbox."""

    layout: Layout
    control_plane: Kubectl
    workload: Kubectl
    before: frozenset[str]

    def left(self) -> set[str]:
        """What the workload cluster has that it did not have at first."""
        return inventory(self.workload) - self.before

    def wait_until_nothing_is_left(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left == set()

    def play_gateways(self) -> None:
        """What Traefik and Envoy Gateway would say."""
        self.control_plane.set_status("gatewayclass", "traefik", {"conditions": [_true("Accepted")]})
        for kubectl, name, address in (
            (self.control_plane, "modelplane", "203.0.113.20"),
            (self.workload, "inference-gateway", "203.0.113.10"),
        ):
            status = {
                "addresses": [{"type": "IPAddress", "value": address}],
                "conditions": [_true("Programmed"), _true("Accepted")],
            }
            kubectl.set_status("gateway", name, status, "modelplane-system")

    def play_kubelet(self, pod: str, *, ready: bool = True) -> None:
        """What a kubelet would say of a running pod."""
        conditions = [{**_true("Ready"), "status": str(ready)}, {**_true("ContainersReady"), "status": str(ready)}]
        self.workload.set_status("pod", pod, {"phase": "Running", "podIP": "192.0.2.9", "conditions": conditions})

    def play_traefik(self, route: str) -> None:
        """What Traefik would say of a route."""
        parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "modelplane"}
        accepted = {
            "controllerName": "traefik.io/gateway-controller",
            "parentRef": {**parent, "namespace": "modelplane-system"},
            "conditions": [_true("Accepted"), _true("ResolvedRefs")],
        }
        self.control_plane.set_status("httproute", route, {"parents": [accepted]}, "ml-team")

    def status(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.control_plane.get(kind, name, f"--namespace={namespace}").get("status", {})
        return found

    def is_true(self, kind: str, name: str, condition: str = "Ready", namespace: str = "") -> bool:
        conditions = self.status(kind, name, namespace).get("conditions", [])
        return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def inventory(kubectl: Kubectl) -> set[str]:
    """ "kind namespace/name" of everything on a cluster but what its own controllers make for themselves."""
    items = [(item["kind"], item["metadata"]) for item in kubectl.get(_KINDS, "-A")["items"]]
    return {
        f"{kind} {meta.get('namespace', '')}/{meta['name']}"
        for kind, meta in items
        if not meta.get("namespace", "").startswith("kube-")
    }


def _true(type_: str) -> dict[str, Any]:
    return {**SINCE, "type": type_, "status": "True", "reason": type_, "observedGeneration": 1}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    layout = replace(Layout.from_env(), home=tmp_path_factory.mktemp("crossplane"), port_base=free_port_base())
    commands.up(layout, lambda _: None, engine=None, only_clusters=True)
    binaries.ensure(layout, lambda _: None, ("crossplane", "provider-kubernetes"))
    crossplane.ensure(layout)
    supervisor.up(layout, crossplane.processes(layout), lambda _: None)
    workload = Kubectl(layout, "workload")
    yield Pair(layout, Kubectl(layout, "control-plane"), workload, frozenset(inventory(workload)))
    supervisor.down(layout, lambda _: None)
