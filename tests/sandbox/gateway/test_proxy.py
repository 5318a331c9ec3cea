"""The data plane against real HTTP servers on loopback: what passes, how it streams, and how each gateway refuses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sandbox.gateway.dialects import Dialect
from sandbox.gateway.proxy import Proxy
from sandbox.gateway.snapshot import Snapshot
from tests.sandbox.gateway import manifests as m

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
UPSTREAM = "127.77.0.1"


@contextlib.asynccontextmanager
async def served(handler: Handler, host: str = UPSTREAM) -> AsyncIterator[int]:
    """A server with this handler on a free port of a loopback address."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def gateway(
    dialect: Dialect, snapshot: Snapshot, hosts: dict[tuple[str, int], tuple[str, int]] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a gateway that knows this snapshot."""
    proxy = Proxy(dialect, snapshot, hosts or {})
    async with (
        served(proxy.handle, "127.77.0.2") as port,
        aiohttp.ClientSession(f"http://127.77.0.2:{port}") as client,
    ):
        yield client
    await proxy.close()


async def echo(request: web.BaseRequest) -> web.Response:
    body = (await request.read()).decode()
    names = ("X-Test", "X-Hop", "X-Forwarded-For", "Connection", "Accept-Encoding")
    seen = {name: request.headers.get(name) for name in names}
    return web.json_response(
        {"method": request.method, "path": request.raw_path, "body": body, "headers": seen},
        headers={"X-From": "upstream"},
    )


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def control_plane(port: int, *hosts: str, **more: Any) -> Snapshot:
    """Control plane with the service `svc` on these hosts, as Modelplane composes it."""
    backend = m.to_service("s", filters=[m.rewrite("/ml-team/svc-29b20/")])
    return m.snapshot(
        m.TRAEFIK,
        m.route("svc", m.rule("/ml-team/svc/", backend)),
        m.service("s"),
        m.endpoint_slice("s", *(hosts or (UPSTREAM,)), port=port, **more),
    )


def test_a_request_passes_with_method_query_body_and_headers() -> None:
    async def work() -> None:
        url, sent = "/ml-team/svc/v1/x%2Fy?a=1&b=%20", {"X-Test": "t", "Connection": "X-Hop", "X-Hop": "gone"}
        async with (
            served(echo) as port,
            gateway(m.TRAEFIK, control_plane(port)) as client,
            client.post(url, data="hello", headers=sent) as answer,
        ):
            assert answer.status == 200
            assert answer.headers["X-From"] == "upstream"
            assert await answer.json() == {
                "method": "POST",
                "path": "/ml-team/svc-29b20/v1/x%2Fy?a=1&b=%20",
                "body": "hello",
                "headers": {
                    "X-Test": "t",
                    "X-Hop": None,
                    "X-Forwarded-For": "127.0.0.1",
                    "Connection": None,
                    "Accept-Encoding": "gzip, deflate",
                },
            }

    run(work())


def test_two_gateways_in_a_row_reach_the_engine_by_host_name() -> None:
    """The whole way of a completion: control plane, FQDN slice, workload gateway, pool, ready pod."""
    labels = {"modelplane.ai/serving": "svc-29b20"}

    async def work() -> None:
        async with served(echo) as engine:
            rule = m.rule("/ml-team/svc-29b20/", m.to_pool("pool"), to="/", timeouts={"request": "0s"})
            workload = m.snapshot(
                m.ENVOY,
                m.route("svc-29b20", rule, dialect=m.ENVOY, namespace="default"),
                m.pool("pool", port=engine, **labels),
                m.pod("ready", UPSTREAM, labels),
                m.pod("starting", "127.77.0.9", labels, ready=False),
                m.pod("leaving", "127.77.0.9", labels, leaving=True),
                m.pod("other", "127.77.0.9", {"modelplane.ai/serving": "another"}),
            )
            proxy = Proxy(m.ENVOY, workload, {})
            async with served(proxy.handle, "127.77.0.3") as second:
                host = ("workload-gateway.localhost", 80)
                snapshot = control_plane(80, host[0], kind="FQDN")
                async with gateway(m.TRAEFIK, snapshot, {host: ("127.77.0.3", second)}) as client:
                    for _ in range(4):
                        async with client.get("/ml-team/svc/v1/models") as answer:
                            assert (answer.status, (await answer.json())["path"]) == (200, "/v1/models")
            await proxy.close()

    run(work())


def test_events_pass_as_they_come() -> None:
    async def work() -> None:
        seen = asyncio.Event()

        async def stream(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"data: one\n\n")
            await asyncio.wait_for(seen.wait(), 5)  # the client has it before the next one exists
            await response.write(b"data: two\n\n")
            return response

        async with (
            served(stream) as port,
            gateway(m.TRAEFIK, control_plane(port)) as client,
            client.get("/ml-team/svc/v1") as answer,
        ):
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert await answer.content.readany() == b"data: one\n\n"
            seen.set()
            assert await answer.content.read() == b"data: two\n\n"

    run(work())


def test_a_client_that_goes_ends_its_upstream_request() -> None:
    async def work() -> None:
        begun, gone = asyncio.Event(), asyncio.Event()

        async def slow(request: web.BaseRequest) -> web.Response:
            begun.set()
            try:
                await asyncio.sleep(30)
            finally:
                gone.set()
            return web.Response()

        async with served(slow) as port, gateway(m.TRAEFIK, control_plane(port)) as client:
            asking = asyncio.ensure_future(client.get("/ml-team/svc/v1"))
            await begun.wait()
            asking.cancel()
            await asyncio.wait_for(gone.wait(), 5)

    run(work())


def test_an_upstream_that_breaks_off_breaks_the_client_off() -> None:
    async def work() -> None:
        async def cut(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"half")
            assert request.transport is not None
            request.transport.abort()
            return response

        async with served(cut) as port, gateway(m.TRAEFIK, control_plane(port)) as client:
            with pytest.raises(aiohttp.ClientError):
                async with client.get("/ml-team/svc/v1") as answer:
                    await answer.read()

    run(work())


def test_weights_share_requests_and_a_broken_backend_keeps_its_share() -> None:
    async def work() -> None:
        async def first(_: web.BaseRequest) -> web.Response:
            return web.Response(text="first")

        async def second(_: web.BaseRequest) -> web.Response:
            return web.Response(text="second")

        async with served(first) as one, served(second) as two:
            backends = [m.to_service("one", weight=6), m.to_service("two", weight=2), m.to_service("none", weight=0)]
            backends.append(m.to_service("absent", weight=2))
            snapshot = m.snapshot(
                m.TRAEFIK,
                m.route("r", m.rule("/a", *backends)),
                *(m.service(name) for name in ("one", "two", "none")),
                m.endpoint_slice("one", UPSTREAM, port=one),
                m.endpoint_slice("two", UPSTREAM, port=two),
            )
            seen: dict[str, int] = {}
            async with gateway(m.TRAEFIK, snapshot) as client:
                for _ in range(400):
                    async with client.get("/a") as answer:
                        key = await answer.text()
                        seen[key] = seen.get(key, 0) + 1
            assert seen.keys() == {"first", "second", "Internal Server Error"}
            # 400 draws at 60, 20 and 20 %: five standard deviations are 49 and 40.
            assert abs(seen["first"] - 240) < 49
            assert abs(seen["second"] - 80) < 40

    run(work())


REFUSALS = {
    "no route": (m.TRAEFIK, "/x", (404, "404 page not found\n")),
    "no route, envoy": (m.ENVOY, "/x", (404, "")),
    "no such service": (m.TRAEFIK, "/absent", (500, "Internal Server Error")),
    "no endpoint": (m.TRAEFIK, "/empty", (503, "no available server\n")),
    "endpoint not ready": (m.TRAEFIK, "/unready", (503, "no available server\n")),
    "no ready pod": (m.ENVOY, "/pool", (503, "no healthy upstream")),
    "nothing listens": (m.TRAEFIK, "/dead", (502, "Bad Gateway")),
    "nothing listens, envoy": (
        m.ENVOY,
        "/dead-pool",
        (503, "upstream connect error or disconnect/reset before headers. reset reason: connection failure"),
    ),
    "too slow": (m.TRAEFIK, "/slow", (504, "Gateway Timeout")),
    "too slow, envoy": (m.ENVOY, "/slow-pool", (504, "upstream request timeout")),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_each_gateway_refuses_in_its_own_words(case: str) -> None:
    dialect, path, expected = REFUSALS[case]

    async def never(_: web.BaseRequest) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def work() -> None:
        async with served(never) as port:
            limit = {"request": "100ms"}
            snapshot = m.snapshot(
                dialect,
                m.route(
                    "r",
                    *(m.rule(f"/{name}", m.to_service(name)) for name in ("absent", "empty", "unready", "dead")),
                    m.rule("/slow", m.to_service("slow"), timeouts=limit),
                    dialect=dialect,
                ),
                m.route(
                    "pools",
                    m.rule("/pool", m.to_pool("pool")),
                    m.rule("/dead-pool", m.to_pool("dead-pool")),
                    m.rule("/slow-pool", m.to_pool("slow-pool"), timeouts=limit),
                    dialect=dialect,
                    namespace="default",
                ),
                *(m.service(name) for name in ("empty", "unready", "dead", "slow")),
                m.endpoint_slice("unready", UPSTREAM, port=port, ready=False),
                m.endpoint_slice("dead", UPSTREAM, port=1),
                m.endpoint_slice("slow", UPSTREAM, port=port),
                m.pool("pool", app="pool"),
                m.pool("dead-pool", port=1, app="dead"),
                m.pool("slow-pool", port=port, app="slow"),
                m.pod("starting", UPSTREAM, {"app": "pool"}, ready=False),
                m.pod("dead", UPSTREAM, {"app": "dead"}),
                m.pod("slow", UPSTREAM, {"app": "slow"}),
            )
            async with gateway(dialect, snapshot) as client, client.get(path) as answer:
                assert (answer.status, await answer.text()) == expected

    run(work())


def test_a_change_of_routes_is_seen_by_the_next_request() -> None:
    async def work() -> None:
        async with served(echo) as port:
            snapshot = control_plane(port)
            async with gateway(m.TRAEFIK, snapshot) as client:
                statuses = []
                made = m.route("svc", m.rule("/other"))
                for step in ("as made", "route gone", "route back", "slice gone"):
                    if step == "route gone":
                        snapshot.drop("HTTPRoute", made)
                    if step == "route back":
                        snapshot.put("HTTPRoute", m.route("svc", m.rule("/ml-team/svc/", m.to_service("s"))))
                    if step == "slice gone":
                        snapshot.replace("EndpointSlice", [])
                    async with client.get("/ml-team/svc/v1") as answer:
                        statuses.append(answer.status)
                assert statuses == [200, 404, 200, 503]

    run(work())
