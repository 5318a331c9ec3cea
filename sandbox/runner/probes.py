"""Readiness, liveness and startup probes: one check, and the loop that counts its results."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lightkube.models.core_v1 import Container, GRPCAction, HTTPGetAction, Probe

from sandbox.runner.timing import Timing

Kind = Literal["Readiness", "Liveness", "Startup"]
_USER_AGENT = "kube-probe/1.36"
# Defaults of the Kubernetes API, for objects that did not pass through an API server (seconds, times).
_PERIOD, _TIMEOUT, _SUCCESSES, _FAILURES = 10, 1, 1, 3


@dataclass(frozen=True)
class Outcome:
    """message: what a kubelet's Unhealthy event says after "probe failed: "."""

    ok: bool
    message: str = ""


# Runs a command in the container: (exit code, output).
Execute = Callable[[Sequence[str]], Awaitable[tuple[int, str]]]


@dataclass(frozen=True)
class Target:
    """What is probed."""

    pod_ip: str
    container: Container
    execute: Execute

    def port(self, port: int | str) -> int:
        """A port number, given as such or by the name of a container port. ValueError."""
        if isinstance(port, int) or port.isdigit():
            return int(port)
        for item in self.container.ports or []:
            if item.name == port:
                return item.containerPort
        raise ValueError(f"couldn't find port {port!r} in container {self.container.name}")


async def check(probe: Probe, target: Target) -> Outcome:
    """Run a probe once."""
    seconds = probe.timeoutSeconds or _TIMEOUT
    try:
        async with asyncio.timeout(seconds):
            return await _check(probe, target)
    except TimeoutError:
        return Outcome(ok=False, message=_timed_out(probe, target, seconds))
    except (OSError, ValueError, EOFError) as error:
        return Outcome(ok=False, message=_why(probe, target, error))


async def _check(probe: Probe, target: Target) -> Outcome:
    if probe.httpGet:
        code = await _http(probe.httpGet, target)
        return Outcome(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")
    if probe.tcpSocket:
        host, port = probe.tcpSocket.host or target.pod_ip, target.port(probe.tcpSocket.port)
        _, writer = await asyncio.open_connection(host, port)
        await _close(writer)
        return Outcome(ok=True)
    if probe.exec:
        code, output = await target.execute(probe.exec.command or [])
        return Outcome(code == 0, output)
    if probe.grpc:
        return await _grpc(probe.grpc, target.pod_ip)
    return Outcome(ok=False, message="missing probe handler")


async def _http(action: HTTPGetAction, target: Target) -> int:
    host, port = action.host or target.pod_ip, target.port(action.port)
    context = None
    if action.scheme == "HTTPS":
        # As a kubelet: a probe asks whether something answers, not who it is.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": _USER_AGENT, "Accept": "*/*", "Connection": "close"}
        headers |= {item.name: item.value for item in action.httpHeaders or []}
        lines = [f"GET {action.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        status = (await reader.readline()).split()
        if len(status) < 2 or not status[0].startswith(b"HTTP/") or not status[1].isdigit():
            raise EOFError("EOF" if not status else "malformed HTTP response")
        return int(status[1])
    finally:
        await _close(writer)


async def _grpc(action: GRPCAction, host: str) -> Outcome:
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - a long import for a rare kind of probe
    from google.protobuf.wrappers_pb2 import StringValue  # type: ignore[import-untyped]  # noqa: PLC0415

    # HealthCheckRequest{service = 1: string} has the wire form of a StringValue; {status = 1: SERVING} is 08 01.
    request = StringValue(value=action.service or "").SerializeToString()
    address = f"{host}:{action.port}"
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            answer: bytes = await channel.unary_unary("/grpc.health.v1.Health/Check")(request, wait_for_ready=False)
        except grpc.aio.AioRpcError as error:
            return Outcome(ok=False, message=f"rpc error: code = {error.code().name} desc = {error.details()}")
    serving = answer == b"\x08\x01"
    return Outcome(serving, f"service unhealthy (responded with {answer.hex()!r})")


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _why(probe: Probe, target: Target, error: Exception) -> str:
    refused = "connect: connection refused" if isinstance(error, ConnectionRefusedError) else str(error)
    if probe.httpGet:
        address = f"{probe.httpGet.host or target.pod_ip}:{probe.httpGet.port}"
        return f'Get "{_url(probe.httpGet, target)}": dial tcp {address}: {refused}'
    if probe.tcpSocket:
        return f"dial tcp {probe.tcpSocket.host or target.pod_ip}:{probe.tcpSocket.port}: {refused}"
    return str(error)


def _timed_out(probe: Probe, target: Target, seconds: float) -> str:
    if probe.httpGet:
        url = _url(probe.httpGet, target)
        return f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    if probe.exec:
        return f"command timed out: {probe.exec.command} timed out after {seconds:g}s"
    return f"timeout: no answer within {seconds:g}s"


def _url(action: HTTPGetAction, target: Target) -> str:
    return f"{(action.scheme or 'HTTP').lower()}://{action.host or target.pod_ip}:{action.port}{action.path or '/'}"


async def watch(
    kind: Kind,
    probe: Probe,
    target: Target,
    timing: Timing,
    *,
    failed: Callable[[Kind, str], None],
    result: Callable[[bool], None],
) -> None:
    """Probe a running container again and again. failed: each failure; result: each time a threshold is reached.

    A startup probe ends with its first result, a liveness probe with its first failure.
    """
    await asyncio.sleep(min(probe.initialDelaySeconds or 0, timing.initial_delay_most))
    period = probe.periodSeconds or _PERIOD
    last, run, ready = False, 0, False
    while True:
        outcome = await check(probe, target)
        if not outcome.ok:
            failed(kind, outcome.message)
        run = run + 1 if outcome.ok == last else 1
        last = outcome.ok
        needed = (probe.successThreshold or _SUCCESSES) if outcome.ok else (probe.failureThreshold or _FAILURES)
        if run >= needed:
            ready = outcome.ok
            result(outcome.ok)
            if kind == "Startup" or (kind == "Liveness" and not outcome.ok):
                return
        # Only readiness is asked more often: more failures a minute of the others would kill what a kubelet lets live.
        hurry = kind == "Readiness" and not ready
        await asyncio.sleep(min(period, timing.unready_period_most) if hurry else period)
