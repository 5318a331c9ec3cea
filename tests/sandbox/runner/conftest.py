"""One real cluster pair with a runner for all tests of this folder that need it, and what they do with it."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lightkube import ApiError, Client
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Event, Namespace, Pod, ServiceAccount

from sandbox import binaries, commands, nodes, runner, supervisor
from sandbox.layout import Layout
from sandbox.processes import records
from tests.sandbox.conftest import free_port_base

T = TypeVar("T")
_NUMBERS = itertools.count(1)


def until(found: Callable[[], T], seconds: float = 20) -> T:
    """The first true answer. What it asks may fail meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if answer := found():
                return answer
            last: object = answer
        except (ApiError, OSError) as error:
            last = error
        assert time.monotonic() < deadline, f"not so after {seconds} s; last: {last!r}"
        time.sleep(0.05)


@dataclass
class Cluster:
    """The workload cluster of a sandbox, seen from a namespace of the test's own."""

    layout: Layout
    client: Client
    namespace: str

    def create(self, *manifests: dict[str, Any]) -> None:
        for document in manifests:
            metadata = {**document["metadata"], "namespace": self.namespace}
            metadata.pop("uid", None)
            self.client.create(from_dict({**document, "metadata": metadata}))

    def pod(self, name: str) -> Pod:
        return self.client.get(Pod, name, namespace=self.namespace)

    def pods(self) -> list[Pod]:
        return list(self.client.list(Pod, namespace=self.namespace))

    def names(self) -> list[str]:
        return sorted(str(pod.metadata.name) for pod in self.pods() if pod.metadata)

    def status(self, name: str) -> dict[str, Any]:
        found = self.pod(name).status
        assert found is not None
        return dict(found.to_dict())

    def container(self, name: str) -> dict[str, Any]:
        statuses = self.status(name).get("containerStatuses")
        return dict(statuses[0]) if statuses else {}

    def ready(self, name: str) -> bool:
        conditions = self.status(name).get("conditions", [])
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    def events(self, name: str) -> set[tuple[str, str, str]]:
        """Type, reason and message of a pod's events that the kubelet recorded."""
        listed = self.client.list(Event, namespace=self.namespace, fields={"involvedObject.name": name})
        return {
            (item.type or "", item.reason or "", item.message or "")
            for item in listed
            if item.source and item.source.component == "kubelet"
        }

    def kubectl(self, *words: str) -> str:
        command = [
            binaries.installed(self.layout, "kubectl"),
            f"--kubeconfig={self.layout.workload.kubeconfig}",
            *words,
        ]
        result = subprocess.run([*command, "-n", self.namespace], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def folders(self) -> list[str]:
        """Directories that the runner keeps for pods of this namespace."""
        return [path.name for path in self.layout.pods.iterdir() if path.name.startswith(f"{self.namespace}_")]


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """Both clusters, real, with the runner as the kubelet of all nodes; the fake engine stands for vLLM."""
    home = tmp_path_factory.mktemp("clusters") / "sandbox"
    layout = replace(Layout.from_env({}), home=home, cache=Layout.from_env().cache, port_base=free_port_base())
    try:
        commands.up(layout, lambda _: None, engine=None, only_clusters=True)
        layout.engine_file.write_text("fake")
        supervisor.up(layout, runner.processes(layout), lambda _: None)
        until(lambda: len(nodes.ready_nodes(layout)) == 3)
        yield layout
    finally:
        supervisor.down(layout, lambda _: None)


@pytest.fixture
def cluster(clusters: Layout) -> Iterator[Cluster]:
    namespace = f"runner-{next(_NUMBERS)}"
    client = nodes.client(clusters.workload)
    client.create(from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
    until(lambda: client.get(ServiceAccount, "default", namespace=namespace))
    yield Cluster(clusters, client, namespace)
    for pod in client.list(Pod, namespace=namespace):
        assert pod.metadata is not None and pod.metadata.name is not None
        client.delete(Pod, pod.metadata.name, namespace=namespace, grace_period=0)
    client.delete(Namespace, namespace)


def open_to_the_world(port: int) -> list[str]:
    """Addresses beyond loopback, in the kernel's notation, at which someone listens on a port."""
    lines = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    addresses = [fields[1].rpartition(":") for fields in lines if fields[3] == "0A"]
    # Little-endian: 127.x.y.z ends in 7F, also where it is mapped into IPv6.
    return [host for host, _, number in addresses if int(number, 16) == port and not host.endswith("7F")]


def runner_pid(layout: Layout) -> int:
    return records(layout)["runner"].pid
