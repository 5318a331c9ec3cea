"""Gateways on the two real API servers: CRDs that come later, statuses, addresses, and a request through both."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sandbox import gateway, processes, supervisor
from sandbox.functions import crds
from sandbox.gateway.dialects import WORKLOAD_HOST
from sandbox.layout import Layout
from tests.sandbox.gateway import manifests as m
from tests.sandbox.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(180)]

ENGINE = "127.77.1.1"
LABELS = {"modelplane.ai/serving": "svc-29b20"}


class Engine(http.server.BaseHTTPRequestHandler):
    """What a pod answers: the path that it was asked for."""

    def do_GET(self) -> None:
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def engine() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer((ENGINE, 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def ask(layout: Layout, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{layout.control_plane_gateway_port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def apply(kubectl: Kubectl, *manifests: dict[str, Any]) -> None:
    kubectl.apply(yaml.safe_dump_all(manifests))


def conditions(items: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item["reason"]) for item in items}


def test_both_gateways_from_empty_clusters_to_a_served_request_and_back(clusters: Layout, engine: int) -> None:
    control, workload = Kubectl(clusters, "control-plane"), Kubectl(clusters, "workload")
    supervisor.up(clusters, gateway.processes(clusters), lambda _: None)
    assert ask(clusters, "/ml-team/svc/v1/models") == (404, "404 page not found\n")

    # The Gateway API comes while the gateway runs.
    apply(control, *crds.gateway_api().values())
    apply(workload, *crds.gateway_api().values(), *crds.inference_extension().values())
    for kubectl in (control, workload):
        for name in ("gateways", "gatewayclasses", "httproutes"):
            kubectl("wait", "--for=condition=Established", f"crd/{name}.gateway.networking.k8s.io", "--timeout=20s")
    for kubectl, dialect in ((control, m.TRAEFIK), (workload, m.ENVOY)):
        apply(kubectl, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": m.SYSTEM}})
        apply(kubectl, m.gateway_class(dialect), m.gateway(dialect))
        name, gateway_name = m.GATEWAYS[dialect.cluster]
        found = eventually(lambda k=kubectl, g=gateway_name: k.get("gateway", g, "-n", m.SYSTEM).get("status"))  # type: ignore[misc]
        assert found["addresses"] == [dict(dialect.address)]
        assert conditions(found["conditions"]) == {
            "Programmed": ("True", "Programmed"),
            "Accepted": ("True", "Accepted"),
        }
        accepted = conditions(kubectl.get("gatewayclass", name)["status"]["conditions"])
        assert accepted == {"Accepted": ("True", "Accepted")}

    # Workload cluster: route, pool and an engine pod that is not ready yet.
    rule = m.rule("/ml-team/svc-29b20/", m.to_pool("svc-29b20-pool"), to="/", timeouts={"request": "0s"})
    pool = m.pool("svc-29b20-pool", port=engine, **LABELS)
    apply(workload, m.route("svc-29b20", rule, dialect=m.ENVOY, namespace="default"), pool)
    container = {"name": "engine", "image": "nowhere/engine:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "svc-29b20-0", "labels": LABELS}}
    apply(workload, {**pod, "spec": {"containers": [container], "schedulerName": "nobody"}})

    # Control plane: service, slice and route as a ModelEndpoint and a ModelService compose them.
    apply(control, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team"}})
    refused = control.run("apply", "-f", "-", stdin=json.dumps(m.endpoint_slice("svc", "127.0.0.1", port=80)))
    assert "may not be in the loopback range" in refused.stderr
    backend = m.to_service("svc", filters=[m.rewrite("/ml-team/svc-29b20/")])
    slice_by_name = m.endpoint_slice("svc", WORKLOAD_HOST, port=80, kind="FQDN")
    apply(control, m.service("svc"), slice_by_name, m.route("svc", m.rule("/ml-team/svc/", backend)))
    parents = eventually(lambda: control.get("httproute", "svc", "-n", "ml-team").get("status", {}).get("parents"))
    assert [parent["controllerName"] for parent in parents] == ["traefik.io/gateway-controller"]
    assert conditions(parents[0]["conditions"]) == {
        "Accepted": ("True", "Accepted"),
        "ResolvedRefs": ("True", "ResolvedRefs"),
    }

    eventually(lambda: ask(clusters, "/ml-team/svc/v1/models") == (503, "no healthy upstream"))
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T21:00:00Z"}]
    workload.set_status("pod", "svc-29b20-0", {"podIP": ENGINE, "podIPs": [{"ip": ENGINE}], "conditions": ready})
    eventually(lambda: ask(clusters, "/ml-team/svc/v1/models?x=1") == (200, "/v1/models?x=1"))

    # Nothing of this needs the API servers any more; what goes from them is forgotten.
    workload("delete", "pod", "svc-29b20-0", "--now")
    eventually(lambda: ask(clusters, "/ml-team/svc/v1/models") == (503, "no healthy upstream"))
    control("delete", "httproute", "svc", "-n", "ml-team")
    eventually(lambda: ask(clusters, "/ml-team/svc/v1/models") == (404, "404 page not found\n"))

    stopped = processes.stop(clusters, [processes.records(clusters)["gateway"]])
    assert stopped == ["gateway"]
