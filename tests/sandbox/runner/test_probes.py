from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from lightkube.models.core_v1 import Container, Probe

from sandbox.runner.probes import Kind, Outcome, Target, check, watch
from sandbox.runner.timing import Timing
from tests.sandbox.runner.pods import made

pytestmark = pytest.mark.process


async def execute(command: Sequence[str]) -> tuple[int, str]:
    if command[0] == "slow":
        await asyncio.sleep(20)
    return (0, "") if command[0] == "true" else (1, "not yet")


class Server:
    """Answers each request with the next of the given answers, the last one for ever; records what it was asked."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.requests: list[bytes] = []

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n") if self._answers else b"")
        answer = self._answers.pop(0) if len(self._answers) > 1 else (self._answers or [b""])[0]
        if answer == b"slow":
            await asyncio.sleep(20)
        writer.write(answer)
        writer.close()


def target(port: int = 0) -> Target:
    container = made(Container, {"name": "engine", "ports": [{"name": "http", "containerPort": port or 1}]})
    return Target("127.0.0.1", container, execute)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", (True, "HTTP probe failed with statuscode: 200")),
        (b"HTTP/1.1 302 Found\r\n\r\n", (True, "HTTP probe failed with statuscode: 302")),
        (b"HTTP/1.1 503 No\r\n\r\n", (False, "HTTP probe failed with statuscode: 503")),
        (b"", (False, 'Get "http://127.0.0.1:http/health": dial tcp 127.0.0.1:http: EOF')),
        (
            b"slow",
            (
                False,
                'Get "http://127.0.0.1:http/health": context deadline exceeded'
                " (Client.Timeout exceeded while awaiting headers)",
            ),
        ),
    ],
)
def test_an_http_probe_goes_by_the_status_code(answer: bytes, expected: tuple[bool, str]) -> None:
    async def run() -> tuple[Outcome, list[bytes]]:
        async with Server(answer) as server:
            probe = {
                "httpGet": {"path": "/health", "port": "http", "httpHeaders": [{"name": "X", "value": "y"}]},
                "timeoutSeconds": 1,
            }
            return await check(made(Probe, probe), target(server.port)), server.requests

    outcome, requests = asyncio.run(run())
    assert (outcome.ok, outcome.message) == expected
    assert requests[0].startswith(b"GET /health HTTP/1.1\r\n") and b"\r\nX: y\r\n" in requests[0]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ({"exec": {"command": ["true"]}}, Outcome(ok=True)),
        ({"exec": {"command": ["false"]}}, Outcome(ok=False, message="not yet")),
        (
            {"exec": {"command": ["slow"]}, "timeoutSeconds": 1},
            Outcome(ok=False, message="command timed out: ['slow'] timed out after 1s"),
        ),
        ({"tcpSocket": {"port": 1}}, Outcome(ok=False, message="dial tcp 127.0.0.1:1: connect: connection refused")),
        (
            {"httpGet": {"port": 1, "path": "/health"}},
            Outcome(
                ok=False, message='Get "http://127.0.0.1:1/health": dial tcp 127.0.0.1:1: connect: connection refused'
            ),
        ),
        ({"tcpSocket": {"port": "none"}}, Outcome(ok=False, message="couldn't find port 'none' in container engine")),
        ({}, Outcome(ok=False, message="missing probe handler")),
    ],
)
def test_what_other_probes_find(probe: dict[str, Any], expected: Outcome) -> None:
    outcome = asyncio.run(check(made(Probe, probe), target()))
    assert (outcome.ok, outcome.message.removeprefix("dial tcp 127.0.0.1:none: ")) == (expected.ok, expected.message)


def test_a_tcp_probe_needs_a_listener() -> None:
    async def run() -> Outcome:
        async with Server() as server:
            return await check(made(Probe, {"tcpSocket": {"port": server.port}}), target())

    assert asyncio.run(run()) == Outcome(ok=True)


def watched(kind: Kind, probe: dict[str, Any], *answers: int, seconds: float) -> tuple[list[bool], int]:
    """Results that reached a threshold, and the number of failures, while a server gives these status codes."""
    results: list[bool] = []
    failures: list[str] = []

    async def run() -> None:
        async with Server(*(f"HTTP/1.1 {code} x\r\n\r\n".encode() for code in answers)) as server:
            item = made(Probe, {"httpGet": {"port": server.port}, **probe})
            timing = Timing(unready_period_most=0.02, initial_delay_most=0)
            running = watch(
                kind, item, target(), timing, failed=lambda _, why: failures.append(why), result=results.append
            )
            await asyncio.wait_for(running, seconds)

    try:
        asyncio.run(run())
    except TimeoutError:
        results.append("still probing")  # type: ignore[arg-type]
    return results, len(failures)


def test_readiness_comes_with_the_first_success_although_the_delay_is_long() -> None:
    probe = {"initialDelaySeconds": 30, "periodSeconds": 10, "failureThreshold": 3}
    assert watched("Readiness", probe, 503, 503, 200, seconds=1) == ([True, "still probing"], 2)


def test_readiness_goes_after_as_many_failures_as_the_threshold_says() -> None:
    probe = {"periodSeconds": 10, "failureThreshold": 2}
    assert watched("Readiness", probe, 503, 503, 503, 200, seconds=1) == ([False, False, True, "still probing"], 3)


def test_a_startup_probe_ends_with_its_result() -> None:
    assert watched("Startup", {"periodSeconds": 1, "failureThreshold": 5}, 503, 200, seconds=5) == ([True], 1)


def test_a_liveness_probe_ends_with_its_failure() -> None:
    assert watched("Liveness", {"periodSeconds": 1, "failureThreshold": 2}, 200, 503, 503, seconds=5) == (
        [True, False],
        2,
    )
