"""`python -m sandbox.gateway`: both gateways in one process, until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import signal

from aiohttp import web

from sandbox.gateway.controller import Controller
from sandbox.gateway.dialects import DIALECTS, WORKLOAD_HOST, Dialect
from sandbox.gateway.proxy import Proxy
from sandbox.layout import LOOPBACK, Layout

# Open streams are cut at the end: nothing waits for a gateway that goes.
_GRACE_SECONDS = 0.5
_HTTP_PORT = 80


async def main() -> None:
    layout = Layout.from_env()
    ports = {"control-plane": layout.control_plane_gateway_port, "workload": layout.workload_gateway_port}
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    serving = [asyncio.ensure_future(serve(layout, dialect, ports[dialect.cluster])) for dialect in DIALECTS]
    for task in serving:
        # One gateway alone is no use: when one fails, both end and the log says why.
        task.add_done_callback(lambda _: ended.set())
    await ended.wait()
    failed = [task for task in serving if task.done()]
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    for task in failed:
        task.result()


async def serve(layout: Layout, dialect: Dialect, port: int) -> None:
    """One gateway, until it is cancelled."""
    controller = Controller(dialect, layout.cluster(dialect.cluster))
    proxy = Proxy(dialect, controller.snapshot, {(WORKLOAD_HOST, _HTTP_PORT): (LOOPBACK, layout.workload_gateway_port)})
    # A client that goes away ends its upstream request.
    runner = web.ServerRunner(web.Server(proxy.handle, handler_cancellation=True), shutdown_timeout=_GRACE_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        await controller.run()
    finally:
        await proxy.close()
        await runner.cleanup()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("gateway").setLevel(logging.INFO)
    asyncio.run(main())
