"""Sandboxes of their own for tests: a private home, free ports, everything ended afterwards."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import commands, state, supervisor
from sandbox.layout import PORTS_USED, Layout


def free_port_base() -> int:
    """The first of a range in which no port is taken, below the ephemeral range; random, since others look too."""
    bases = list(range(20000, 32000, PORTS_USED))
    random.shuffle(bases)
    for base in bases:
        sockets = []
        try:
            for port in range(base, base + PORTS_USED):
                probe = socket.socket()
                sockets.append(probe)
                probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for probe in sockets:
                probe.close()
        return base
    raise AssertionError("no free range of ports")


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """A sandbox without processes; whatever a test starts in it is ended."""
    made = replace(Layout.from_env({}), home=tmp_path / "sandbox", cache=tmp_path / "cache", port_base=free_port_base())
    state.prepare(made)
    yield made
    supervisor.down(made, lambda _: None)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """Both real clusters with their nodes, in a home and on ports of their own; binaries come from the usual cache."""
    made = replace(Layout.from_env(), home=tmp_path_factory.mktemp("clusters"), port_base=free_port_base())
    commands.up(made, lambda _: None, engine=None, only_clusters=True)
    yield made
    supervisor.down(made, lambda _: None)
