"""Real clusters after crashes and restarts, and where they listen."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import commands, procfs
from sandbox.layout import Layout
from sandbox.processes import marked, records
from tests.sandbox.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(180)]


def up(layout: Layout) -> list[str]:
    """What `up` said."""
    said: list[str] = []
    commands.up(layout, said.append, engine=None, only_clusters=True)
    return said


def test_everything_listens_on_loopback_only(clusters: Layout) -> None:
    addresses = listening_addresses(set(marked(clusters)))
    assert len(addresses) >= 12
    assert {address for address, _ in addresses} == {"127.0.0.1"}
    assert {port for _, port in addresses} <= set(clusters.ports.values())


def listening_addresses(pids: set[int]) -> set[tuple[str, int]]:
    """(address, port) of each TCP socket on which these processes listen, IPv6 included."""
    files = [str(entry.readlink()) for pid in pids for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in files:
                address, port = fields[1].split(":")
                words = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
                found.add((socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words)), int(port, 16)))
    return found


def test_up_on_running_clusters_changes_nothing(clusters: Layout) -> None:
    before = records(clusters)
    assert "all of it ran already" in up(clusters)[-1]
    assert records(clusters) == before


@pytest.mark.parametrize("victim", ["workload-etcd", "workload-apiserver", "workload-kwok"])
def test_after_kill_9_the_next_up_recovers_with_all_data(clusters: Layout, victim: str) -> None:
    Kubectl(clusters)("create", "configmap", victim)
    before = records(clusters)
    os.kill(before[victim].pid, signal.SIGKILL)
    eventually(lambda: not before[victim].running)  # the kernel may take a moment
    up(clusters)
    after = records(clusters)
    assert {name for name in before if after[name] != before[name]} == {victim}
    eventually(lambda: Kubectl(clusters).run("get", "configmap", victim).returncode == 0)


def test_an_interrupted_up_is_completed_by_the_next_one(clusters: Layout) -> None:
    commands.down(clusters, lambda _: None, delete=False)
    # A shell starts what runs in its background deaf to Ctrl-C, and children inherit that.
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "sandbox", "up", "--only", "clusters"]
    env = {**os.environ, **clusters.env(), "SPECULATION_CACHE": str(clusters.cache)}
    child = subprocess.Popen(argv, cwd=clusters.repository, env=env, stderr=subprocess.PIPE, text=True)
    eventually(lambda: "workload-apiserver" in records(clusters))
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == 130
    assert errors == "interrupted: the same command goes on from here, `python -m sandbox down` ends it\n"
    started = records(clusters)["workload-apiserver"]
    up(clusters)
    assert records(clusters)["workload-apiserver"] == started
    assert all(record.running for record in records(clusters).values())


def test_down_frees_every_port_and_leaves_no_process_and_up_finds_the_data_again(clusters: Layout) -> None:
    Kubectl(clusters, "control-plane")("create", "configmap", "kept")
    commands.down(clusters, lambda _: None, delete=False)
    assert marked(clusters) == {}
    assert records(clusters) == {}
    assert [port for port in clusters.ports.values() if procfs.port_holder(port)] == []
    up(clusters)
    Kubectl(clusters, "control-plane")("get", "configmap", "kept")
