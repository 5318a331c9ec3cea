"""A fake engine as a process of its own, on a loopback address of its own, spoken to over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.log import EngineLog, parse_log
from engine.metrics import Metrics, SpeculationDelta, parse_metrics, speculation_delta
from engine.sse import Completion, CompletionStream, read_body

ROOT = Path(__file__).resolve().parents[3]
SEED = {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
SPEC = f"--speculative-config={json.dumps(SEED)}"
NO_THINKING = '--default-chat-template-kwargs={"enable_thinking": false}'
BASE = ("--model=Qwen/Qwen3-8B", "--served-model-name=qwen3-8b-spec", "--max-model-len=16384")
ARGS = (*BASE, SPEC, NO_THINKING)
CODE = "def cart(items):\n    total = 0\n    for item in items:\n        total += item.price\n    return total"
COPY = (
    "Return this Python function unchanged except rename the variable `total` to `subtotal`. Output only the code.\n\n"
    + CODE
)
RENAMED = CODE.replace("total", "subtotal")
PROSE = "Tell me something about the sea."
# A start takes a tenth of a second; a busy machine may take longer.
_PATIENCE_SECONDS = 300
_addresses = (f"127.78.{number // 250}.{number % 250 + 1}" for number in itertools.count(os.getpid() % 200 * 250))


def args_of(version: str) -> tuple[str, ...]:
    """The seed's arguments, without the flag that older versions do not have."""
    return ARGS if version >= "0.14" else (*BASE, SPEC)


@dataclass
class Fake:
    """A running (or ended) fake engine."""

    host: str
    child: subprocess.Popen[bytes]
    output: Path
    port: int = 8000
    model: str = "qwen3-8b-spec"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    def text(self) -> str:
        return self.output.read_text()

    def log(self) -> EngineLog:
        return parse_log(self.text())

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_PATIENCE_SECONDS)
        with contextlib.closing(connection):
            raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, raw, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def get(self, path: str) -> tuple[int, Any]:
        status, body = self.request("GET", path)
        return status, json.loads(body) if body[:1] in (b"{", b"[") else body.decode()

    def metrics(self) -> Metrics:
        return parse_metrics(self.request("GET", "/metrics")[1].decode())

    def ask(self, content: str = COPY, **more: Any) -> tuple[int, dict[str, Any]]:
        status, body = self.request("POST", "/v1/chat/completions", self.chat(content, **more))
        return status, json.loads(body)

    def answer(self, content: str = COPY, **more: Any) -> Completion:
        return read_body(self.request("POST", "/v1/chat/completions", self.chat(content, **more))[1])

    def stream(self, content: str = COPY, **more: Any) -> Completion:
        body = self.chat(content, stream=True, **more)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_PATIENCE_SECONDS)
        found = CompletionStream()
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", json.dumps(body), self.headers)
            answer = connection.getresponse()
            with contextlib.suppress(http.client.IncompleteRead):
                while part := answer.read1(65536):
                    found.feed(part, time.monotonic())
        return found.finish(time.monotonic())

    def chat(self, content: str, **more: Any) -> dict[str, Any]:
        return {"model": self.model, "messages": [{"role": "user", "content": content}], "temperature": 0, **more}

    def measure(self, *contents: str, k: int = 5) -> SpeculationDelta:
        """The difference that these completions make on /metrics."""
        before = self.metrics()
        for content in contents:
            assert self.ask(content, max_tokens=200)[0] == 200
        return speculation_delta(before, self.metrics(), self.model, k=k)

    def stop(self) -> int:
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(_PATIENCE_SECONDS)


def environment(
    version: str = "0.23.0", settings: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The container's environment."""
    fast: dict[str, object] = {"tokens_per_second": 0, **(settings or {})}
    known = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "ENGINE_VERSION": version}
    return {**known, "FAKE_ENGINE": json.dumps(fast), **(env or {})}


@contextlib.contextmanager
def started(
    args: Sequence[str] = ARGS,
    version: str = "0.23.0",
    settings: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Fake]:
    """A fake engine that was started, not yet ready; it is ended afterwards."""
    host = next(_addresses)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "log"
        with output.open("wb") as file:
            child = subprocess.Popen(
                [sys.executable, "-m", "sandbox.engines.fake", *args, "--host", host],
                env=environment(version, settings, env),
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Fake(host, child, output)
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def serving(
    args: Sequence[str] = ARGS,
    version: str = "0.23.0",
    settings: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Fake]:
    """A fake engine that answers."""
    with started(args, version, settings, env) as fake:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if fake.request("GET", "/health")[0] == 200:
                    break
            assert fake.child.poll() is None, fake.text()
            assert time.monotonic() < deadline, fake.text()
            time.sleep(0.01)
        yield fake


def refused(
    args: Sequence[str],
    version: str = "0.23.0",
    settings: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Exit code and log of an engine that does not start."""
    with started(args, version, settings, env) as fake:
        return fake.child.wait(_PATIENCE_SECONDS), fake.text()
