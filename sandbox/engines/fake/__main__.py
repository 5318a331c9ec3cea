"""Start of the fake engine; what it takes from arguments and environment is said in the package."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from http import HTTPStatus

from sandbox.engines.fake import exits, startup
from sandbox.engines.fake.api import Api
from sandbox.engines.fake.core import Core
from sandbox.engines.fake.http import Request, Server
from sandbox.engines.fake.log import Log
from sandbox.engines.fake.plan import Plan, make_plan

# How long open requests may take after SIGTERM; the pod's own grace period is longer.
_GRACE_SECONDS = 2.0


def main() -> int:
    """Exit code as vLLM's: 0 after SIGTERM, 1 when it fails, 2 when its arguments are refused."""
    argv = sys.argv[1:]
    try:
        plan = make_plan(argv, os.environ)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if isinstance(plan, exits.Exit):
        return exits.die(_log_of_environment(), plan)
    return asyncio.run(_serve(plan))


def _log_of_environment() -> Log:
    from engine.versions import EngineVersion  # noqa: PLC0415 - only for an engine that does not start

    return Log(EngineVersion.of_text(os.environ.get("ENGINE_VERSION", "")).features)


async def _serve(plan: Plan) -> int:
    out = Log(plan.version.features)
    out.muted = not plan.settings.start_lines
    ended = asyncio.Event()
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, 0)
    startup.before_loading(out, plan)
    if await _ended(ended, float("inf") if plan.settings.hang_loading else plan.settings.load_seconds):
        return codes[0]
    core = Core(plan)

    def dead() -> None:
        startup.core_died(out)
        # After the response has gone out.
        loop.call_later(0.05, end, 1)

    api = Api(plan, core, dead)

    def seen(request: Request, status: int) -> None:
        core.counters.http[(request.path, request.method, f"{status // 100}xx")] += 1
        line = f'{request.peer} - "{request.method} {request.path} HTTP/1.1" {status} {HTTPStatus(status).phrase}'
        out.raw("APIServer", f"INFO:     {line}")

    server = Server(api.handle, seen)
    try:
        await server.start(plan.host, plan.port)
    except OSError as error:
        out.raw("APIServer", f"OSError: [Errno {error.errno}] {os.strerror(error.errno or 0)}: {plan.host}:{plan.port}")
        return 1
    startup.after_loading(out, plan)
    out.muted = False
    periodic = startup.Periodic(out, plan, core)
    interval = float(os.environ.get("VLLM_LOG_STATS_INTERVAL") or 10)
    while not await _ended(ended, interval):
        if periodic.enabled:
            periodic.tick()
    await server.stop(_GRACE_SECONDS if codes[0] == 0 else 0)
    out.raw("APIServer", "INFO:     Application shutdown complete.")
    return codes[0]


async def _ended(ended: asyncio.Event, seconds: float) -> bool:
    """Wait; whether the end came first."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), None if seconds == float("inf") else seconds)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
