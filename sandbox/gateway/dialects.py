"""The two gateways that are played: names, addresses, and how each answers when there is nothing to proxy to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.layout import LOOPBACK, ClusterName

WORKLOAD_HOST = "workload-gateway.localhost"
GATEWAY_GROUP = "gateway.networking.k8s.io"
POOL_GROUP = "inference.networking.k8s.io"
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Refusal:
    """A response of the gateway's own."""

    status: int
    body: str = ""
    content_type: str = _PLAIN


@dataclass(frozen=True)
class Dialect:
    """One gateway.

    controller: spec.controllerName of its GatewayClasses, also in route statuses; class_message: of an accepted class;
    address: as in a Gateway's status.addresses; pools: whether it knows InferencePools; default_seconds: of a request
    whose route names no timeout, None for no limit.
    """

    cluster: ClusterName
    controller: str
    class_message: str
    address: Mapping[str, str]
    pools: bool
    default_seconds: float | None
    no_route: Refusal
    no_backend: Refusal
    no_endpoint: Refusal
    unreachable: Refusal
    timed_out: Refusal


TRAEFIK = Dialect(
    cluster="control-plane",
    controller="traefik.io/gateway-controller",
    class_message="",
    address={"type": "IPAddress", "value": LOOPBACK},
    pools=False,
    default_seconds=None,
    no_route=Refusal(404, "404 page not found\n"),
    no_backend=Refusal(500, "Internal Server Error"),
    no_endpoint=Refusal(503, "no available server\n"),
    unreachable=Refusal(502, "Bad Gateway"),
    timed_out=Refusal(504, "Gateway Timeout"),
)
_RESET = "upstream connect error or disconnect/reset before headers. reset reason: connection failure"
ENVOY = Dialect(
    cluster="workload",
    controller="gateway.envoyproxy.io/gatewayclass-controller",
    class_message="Valid GatewayClass",
    address={"type": "Hostname", "value": WORKLOAD_HOST},
    pools=True,
    # Envoy's own route timeout; Modelplane's routes turn it off with "0s".
    default_seconds=15.0,
    no_route=Refusal(404),
    no_backend=Refusal(500),
    no_endpoint=Refusal(503, "no healthy upstream", "text/plain"),
    unreachable=Refusal(503, _RESET, "text/plain"),
    timed_out=Refusal(504, "upstream request timeout", "text/plain"),
)
DIALECTS = (TRAEFIK, ENVOY)
