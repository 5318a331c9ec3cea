"""Fake engines as processes on loopback addresses of their own, and a gateway in front of them that can misbehave."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
# As the engine pods: port 8000, an address each.
PORT = 8000
_NUMBERS = itertools.count(1)
_START_S = 30.0

SPECULATIVE = '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
BASELINE_ARGS = ("--model=Qwen/Qwen3-8B", "--served-model-name=qwen", "--max-model-len=8192")
SPEC_ARGS = (*BASELINE_ARGS, f"--speculative-config={SPECULATIVE}")


def address() -> str:
    """A loopback address that nothing of this run listens on."""
    return f"127.{64 + os.getpid() % 64}.{os.getpid() // 64 % 250}.{next(_NUMBERS)}"


@dataclass
class Engine:
    """A running engine and what the cluster says of its pod. args: of the pod's spec, without what the runner adds."""

    ip: str
    image: str
    args: tuple[str, ...]
    log_file: Path
    name: str = "qwen-54ef8-qwen-73f3b-x1"
    replica: str = "qwen-54ef8"
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.ip}:{PORT}"

    def pod(self, **status: Any) -> dict[str, Any]:
        """The pod as the API server has it."""
        return {
            "metadata": {
                "name": self.name,
                "namespace": "default",
                "uid": f"uid-of-{self.name}",
                "labels": {
                    "modelplane.ai/serving": self.replica,
                    "modelplane.ai/workload": self.name.rpartition("-")[0],
                },
            },
            "spec": {
                "containers": [
                    {
                        "name": "engine",
                        "image": self.image,
                        "args": list(self.args),
                        "env": [{"name": name, "value": value} for name, value in self.env.items()],
                    }
                ]
            },
            "status": {
                "phase": "Running",
                "podIP": self.ip,
                "containerStatuses": [{"name": "engine", "restartCount": 0, "containerID": f"containerd://{self.ip}"}],
                **status,
            },
        }


@contextmanager
def engine(
    folder: Path,
    args: Sequence[str] = SPEC_ARGS,
    *,
    version: str = "0.23.0",
    faults: dict[str, Any] | None = None,
    pod: Mapping[str, str] | None = None,
) -> Iterator[Engine]:
    """A fake engine that serves, started with these args; pod: its name and replica, where the usual ones are taken."""
    ip = address()
    found = Engine(ip, f"vllm/vllm-openai:v{version}", tuple(args), folder / f"{ip}.log", **(pod or {}))
    environment = {
        **{name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}},
        "PYTHONPATH": str(ROOT),
        "ENGINE_VERSION": version,
        "FAKE_ENGINE": json.dumps(faults or {}),
    }
    command = [sys.executable, "-m", "sandbox.engines.fake", *args, "--host", ip, "--port", str(PORT)]
    with (
        found.log_file.open("wb") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            _wait(found, process)
            yield found
        finally:
            process.kill()  # nothing of it outlives the test, and a graceful end takes longer than the test


def _wait(found: Engine, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{found.url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the engine does not serve: {found.log_file.read_text()[-2000:]}")


@dataclass
class Gateway:
    """A reverse proxy under /ml-team/qwen.

    refuse: statuses for the next POSTs; pages: what the next GETs of a path get; seen: requests so far.
    """

    ip: str
    backends: list[str]
    refuse: list[int] = field(default_factory=list)
    pages: dict[str, list[str]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.ip}:{PORT}/ml-team/qwen"


@contextmanager
def gateway(*backends: str) -> Iterator[Gateway]:
    """A running gateway that takes its backends in turn; it serves their paths at its root as well."""
    state = Gateway(address(), list(backends))
    turns = itertools.cycle(backends)

    class Handler(_Proxy):
        gateway_state = state

        def backend(self) -> str:
            return next(turns)

    server = ThreadingHTTPServer((state.ip, PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Proxy(BaseHTTPRequestHandler):
    gateway_state: Gateway

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def backend(self) -> str:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        self._forward(self.rfile.read(int(self.headers["Content-Length"])))

    def _forward(self, body: bytes | None) -> None:
        state = self.gateway_state
        path = self.path.removeprefix("/ml-team/qwen")
        state.seen.append(f"{self.command} {path}")
        if state.refuse and self.command == "POST":
            self._answer(state.refuse.pop(0), "text/plain", b"no available server")
        elif state.pages.get(path):
            self._answer(200, "text/plain", state.pages[path].pop(0).encode())
        else:
            self._proxy(path, body)

    def _proxy(self, path: str, body: bytes | None) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.backend()).netloc, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request(self.command, path, body, headers)
        response = connection.getresponse()
        self.send_response(response.status)
        self.send_header("Content-Type", response.headers.get("Content-Type", ""))
        self.end_headers()  # HTTP/1.0: the end of the connection is the end of the body
        while chunk := response.read1(65536):
            self.wfile.write(chunk)
            self.wfile.flush()
        connection.close()

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def page(url: str) -> str:
    """The metrics page of an engine."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as response:
        return str(response.read().decode())
