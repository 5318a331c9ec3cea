"""A throwaway API server: the sandbox's own etcd and kube-apiserver, alone, in a folder of its own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from sandbox import binaries, clusters, state, supervisor
from sandbox.layout import Layout
from tests.sandbox.conftest import free_port_base

PROCESSES = ("control-plane-etcd", "control-plane-apiserver")


@dataclass(frozen=True)
class ApiServer:
    """A plain client of the API server, with strict field validation as kubectl asks for it."""

    http: httpx.Client

    def send(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        """The answer of the API server; a Status object when it refuses."""
        answer = self.http.request(method, path, json=body, params={"fieldValidation": "Strict", **query})
        document: dict[str, Any] = answer.json()
        return document


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    layout = replace(
        Layout.from_env(), home=tmp_path_factory.mktemp("api-server") / "sandbox", port_base=free_port_base()
    )
    state.prepare(layout)
    binaries.ensure(layout, lambda _: None, ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"))
    clusters.prepare(layout)
    try:
        started = [process for process in clusters.processes(layout) if process.name in PROCESSES]
        supervisor.up(layout, started, lambda _: None)
        cluster = layout.control_plane
        context = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
        context.load_cert_chain(cluster.pki / "admin.crt", cluster.pki / "admin.key")
        with httpx.Client(base_url=cluster.server, verify=context, timeout=30) as http:
            yield ApiServer(http)
    finally:
        supervisor.down(layout, lambda _: None)
