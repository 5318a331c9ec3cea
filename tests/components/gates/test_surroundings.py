"""What the machine that runs Pulumi brings along must not come between it and a cluster: Python's own strictness,
proxies.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.gates.kube import Kube, environment_proxy, path
from components.gates.namespace import Namespace
from components.gates.service import Answer, ask
from components.gates.waiting import Run
from tests.validation import kube_server

PODS = path("v1", "pods", namespace="default")


def kubeconfig(server: str, authority: bytes = b"", token: str = "t") -> str:
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return json.dumps({"clusters": [{"cluster": cluster}], "users": [{"user": {"token": token}}]})


def test_an_authority_without_key_identifiers_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = ssl.create_default_context

    def strict(**given: Any) -> ssl.SSLContext:
        context = original(**given)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # what Python 3.13 has by default
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    with kube_server.serve(tmp_path) as server:
        text = kubeconfig(server.url, (tmp_path / "ca.crt").read_bytes(), kube_server.TOKEN)
        assert Kube(text).list(PODS) == []


@contextmanager
def models() -> Iterator[str]:
    """A server that answers every GET with a list of one model; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            body = b'{"data": [{"id": "m"}]}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def _dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment whose proxy answers nobody, and that excepts no host."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_dead_proxy")
def test_no_proxy_lies_between_this_machine_and_itself() -> None:
    with models() as address:
        assert ask(address) == Answer(200, models=("m",))
        assert Kube(kubeconfig(address)).get("/v1/models") == {"data": [{"id": "m"}]}


PROXIES = [
    ("localhost", ""),
    ("127.0.0.1", ""),
    ("127.4.5.6", ""),
    ("::1", ""),
    ("10.0.0.1", "http://127.0.0.1:1"),
    ("k8s.example", "http://127.0.0.1:1"),
]


@pytest.mark.usefixtures("_dead_proxy")
@pytest.mark.parametrize(("host", "proxy"), PROXIES)
def test_any_other_host_is_reached_through_the_proxy(host: str, proxy: str) -> None:
    assert environment_proxy("https", host) == proxy


def test_a_lost_cluster_is_forgotten_with_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    warned: list[str] = []
    run = Run(timeout=10, say=lambda _: None, warn=warned.append, cancelled=threading.Event())
    Namespace().delete({"kubeconfig": kubeconfig("http://127.0.0.1:1"), "name": "ml-team", "made": True}, run)
    assert warned == [
        "not waited for what a lost cluster held: http://127.0.0.1:1 is not reachable (connection refused)"
    ]


def test_without_an_environment_the_provider_says_what_to_do(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text("#!/bin/sh\nexit 1\n")  # a Python without the packages
    bare.chmod(0o755)
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [root / "components" / "gates" / "pulumi-resource-speculation", "127.0.0.1:1"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PULUMI_RUNTIME_VIRTUALENV": str(tmp_path / "absent")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"error: {root} has no Python environment with the stack's packages; run make setup there\n",
    )
