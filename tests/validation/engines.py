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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.flags import expand
from sandbox.engines.fake.api import SETTINGS_PATH
from sandbox.engines.fake.settings import AT_START, LIES_AT_START

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
    faults: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
) -> Iterator[Engine]:
    """A fake engine that serves, started with these args; pod: its name and replica, where the usual ones are taken."""
    process, found = _start(folder, args, version, faults or {}, env or {})
    try:
        _wait(found, process)
        yield replace(found, **(pod or {}))
    finally:
        _end(process)


class Pool:
    """Engines that serve many tests: one process for each way to start, its faults switched while it runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, tuple[subprocess.Popen[bytes], Engine]] = {}

    def start(
        self,
        args: Sequence[str] = SPEC_ARGS,
        *,
        version: str = "0.23.0",
        faults: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> tuple[subprocess.Popen[bytes], Engine]:
        """Begin to start such an engine, if none runs; serving is awaited by `engine`."""
        at_start = {name: value for name, value in (faults or {}).items() if _at_start(name, value)}
        key = json.dumps([list(args), version, at_start, dict(env or {})], sort_keys=True)
        running = self._running.get(key)
        if running is None or running[0].poll() is not None:
            running = self._running[key] = _start(self._folder, args, version, at_start, env or {})
        return running

    def engine(self, args: Sequence[str] = SPEC_ARGS, *, faults: Mapping[str, Any] | None = None, **how: Any) -> Engine:
        """Such an engine, serving, with these faults and no others. how: as `start`."""
        process, found = self.start(args, faults=faults, **how)
        _wait(found, process)
        body = json.dumps(dict(faults or {})).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{found.url}{SETTINGS_PATH}", body, method="PUT")):
            return replace(found)

    def close(self) -> None:
        for process, _ in self._running.values():
            _end(process)


def _at_start(name: str, value: object) -> bool:
    return name in AT_START or (name == "lie" and value in LIES_AT_START)


def _start(
    folder: Path, args: Sequence[str], version: str, faults: Mapping[str, Any], env: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], Engine]:
    ip = address()
    found = Engine(ip, f"vllm/vllm-openai:v{version}", tuple(args), folder / f"{ip}.log", env=env)
    environment = {
        **{name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}},
        "PYTHONPATH": str(ROOT),
        "ENGINE_VERSION": version,
        "FAKE_ENGINE": json.dumps(dict(faults)),
        **env,
    }
    # As the kubelet hands them to the container.
    command = [sys.executable, "-m", "sandbox.engines.fake", *expand(args, env), "--host", ip, "--port", str(PORT)]
    with found.log_file.open("wb") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log), found


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # nothing of it outlives the tests, and a graceful end takes longer than a test
    process.wait()


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

    refuse: statuses for the next POSTs; pages: what the next GETs of a path get; rewrite: path -> what becomes of its
    pages; seen: requests so far.
    """

    ip: str
    backends: list[str]
    refuse: list[int] = field(default_factory=list)
    pages: dict[str, list[str]] = field(default_factory=dict)
    rewrite: dict[str, Callable[[str], str]] = field(default_factory=dict)
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
        elif path in state.rewrite:
            with urllib.request.urlopen(f"http://{urlsplit(self.backend()).netloc}{path}", timeout=60) as response:
                self._answer(200, "text/plain", state.rewrite[path](response.read().decode()).encode())
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
