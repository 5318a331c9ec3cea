"""Stand-in for the gateways of both clusters: Traefik on the control plane, Envoy Gateway on the workload cluster.

One process with two listeners. It watches the real API servers and does what Modelplane needs of the two:

* controllers: status of GatewayClass, Gateway (conditions, address) and HTTPRoute (Accepted, ResolvedRefs);
* data plane: PathPrefix and Exact matches (the longest wins), URLRewrite of paths on rules and backends, weights,
  Services through their EndpointSlices (IPv4, IPv6, FQDN), InferencePools through their ready pods, timeouts, streaming
  as it comes; 404 without a route, 500 without a valid backend, 503 without an endpoint, as each of the two answers.

Intended differences: addresses are on loopback, so the control plane's address has a port (Layout) and the workload's
is the host name `workload-gateway.localhost`, port 80, which leads to a port of the Layout and is known to this process
only. An InferencePool's endpoint picker is not asked: pods take turns (its failure mode is FailOpen). Hostnames, other
matches and filters, TLS, ReferenceGrants and cross-namespace references are not there: a route that uses them is not
accepted, with reason UnsupportedValue.
"""

from __future__ import annotations

import sys

from sandbox.layout import Layout
from sandbox.probes import http_ok
from sandbox.processes import Process

# Answered by the listeners themselves, on a path that no route can have (a prefix begins with a namespace).
HEALTH_PATH = "/.gateway/health"


def processes(layout: Layout) -> list[Process]:
    """The gateway's process; ready when both listeners answer."""
    ports = (layout.control_plane_gateway_port, layout.workload_gateway_port)
    probes = [http_ok(port, HEALTH_PATH) for port in ports]
    return [
        Process(
            "gateway",
            (sys.executable, "-m", "sandbox.gateway"),
            env={"PYTHONPATH": str(layout.repository)},
            ready=lambda: all(probe() for probe in probes),
            ports=ports,
            files=(layout.repository / "sandbox" / "gateway",),
        )
    ]
