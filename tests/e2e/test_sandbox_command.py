"""`python -m sandbox` where it cannot go on: one line, and nothing left behind."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import procfs
from sandbox.binaries import bubblewrap
from tests.e2e.workplace import END_SECONDS, INTERRUPTED, Workplace, eventually, free_port_base

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(200)]

FREE = "free some space, or set SANDBOX_HOME (state) or SPECULATION_CACHE (binaries, models) to another file system"


@pytest.fixture
def other(place: Workplace, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment of another sandbox, of the same checkout; none of it may be left."""
    home = tmp_path / "home"
    yield {"SANDBOX_HOME": str(home), "SANDBOX_PORT_BASE": str(free_port_base())}
    assert [item.pid for item in procfs.stats() if procfs.environ(item.pid).get("SANDBOX_HOME") == str(home)] == []


@pytest.mark.parametrize(("offset", "process"), [(3, "control-plane-apiserver"), (20, "control-plane-gateway")])
def test_a_taken_port_is_named_with_its_holder(
    place: Workplace, other: dict[str, str], offset: int, process: str
) -> None:
    port = int(other["SANDBOX_PORT_BASE"]) + offset
    with socket.create_server(("127.0.0.1", port)):
        done = place.python("-m", "sandbox", "up", env=other).end()
    (line,) = done.lines
    assert done.status == 1
    assert line.startswith(f"error: port 127.0.0.1:{port} (for {process}): held by process {os.getpid()} (")
    assert line.endswith(f"); end it (kill {os.getpid()}), or set SANDBOX_PORT_BASE to the first of a free range")


def test_a_full_disk_is_said_before_anything_is_made(place: Workplace, other: dict[str, str], tmp_path: Path) -> None:
    """A file system of 1 MiB for the state."""
    argv = [str(bubblewrap()), "--dev-bind", "/", "/", "--size", str(2**20), "--tmpfs", str(tmp_path)]
    done = place.start(*argv, ".venv/bin/python", "-m", "sandbox", "up", env=other).end()
    home = other["SANDBOX_HOME"]
    assert (done.status, done.lines) == (1, [f"error: {home}: 0 MiB free, a sandbox needs 600 MiB; {FREE}"])


def test_a_full_cache_is_said_before_anything_is_built(place: Workplace, other: dict[str, str], tmp_path: Path) -> None:
    """A file system of 1 MiB for the binaries."""
    cache = tmp_path / "cache"
    cache.mkdir()
    argv = [str(bubblewrap()), "--dev-bind", "/", "/", "--size", str(2**20), "--tmpfs", str(cache)]
    env = {**other, "SPECULATION_CACHE": str(cache)}
    done = place.start(*argv, ".venv/bin/python", "-m", "sandbox", "up", env=env).end()
    assert (done.status, done.lines) == (
        1,
        [f"error: {cache}/bin: 1 MiB free, building 10 binaries needs 20480 MiB; {FREE}"],
    )


def test_a_disk_that_gets_full_later_is_said_too(place: Workplace, other: dict[str, str], tmp_path: Path) -> None:
    """A file system with room for bytes, but for five files and folders only: the kernel's own refusal."""
    script = f'mount -t tmpfs -o size=1g,nr_inodes=5 tmpfs "{tmp_path}" && exec .venv/bin/python -m sandbox up'
    done = place.start("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, env=other).end()
    if "unshare" in done.output or "permission" in done.output.lower():
        pytest.skip(f"no mounts without root here: {done.output.strip()}")
    home = other["SANDBOX_HOME"]
    assert (done.status, done.lines) == (1, [f"error: {home}/bin: no space left on this file system; {FREE}"])


def test_ctrl_c_during_a_build_leaves_no_half_binary(place: Workplace, other: dict[str, str], tmp_path: Path) -> None:
    """The real build of the first tool that an empty cache lacks."""
    cache = tmp_path / "cache"
    running = place.python("-m", "sandbox", "up", env={**other, "SPECULATION_CACHE": str(cache)})
    running.until("[1/")
    eventually(lambda: compilers(cache))
    running.interrupt()
    done = running.end(END_SECONDS)
    assert "Traceback" not in done.output, done.output
    assert (done.status, done.lines[-1]) == (130, INTERRUPTED)
    assert compilers(cache) == []
    assert [path.name for path in cache.rglob("*") if path.is_file()] == [".lock"]


def compilers(cache: Path) -> list[str]:
    """Builds into this cache."""
    return [line for item in procfs.stats() if str(cache) in (line := procfs.command(item.pid))]


@pytest.mark.parametrize("given", ["80", "eighty"])
def test_ports_that_cannot_be_used_are_refused(place: Workplace, given: str) -> None:
    done = place.python("-m", "sandbox", "up", env={"SANDBOX_PORT_BASE": given}).end()
    assert (done.status, done.lines) == (
        1,
        [
            f"error: SANDBOX_PORT_BASE: {given!r}: not the first of 50 unprivileged ports; "
            "give a number between 1024 and 65485, or unset it for 18000"
        ],
    )
