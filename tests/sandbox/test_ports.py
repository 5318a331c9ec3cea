"""Taken ports: who holds them, and one line that says so before anything is started."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.findings import Problems
from sandbox import state, supervisor
from sandbox.layout import Layout
from sandbox.processes import Process, records
from tests.sandbox.test_processes import SLEEP, answers, listener, quiet


def test_a_taken_port_is_one_line_with_port_holder_and_remedy_and_nothing_is_started(layout: Layout) -> None:
    port = layout.port_base + 1
    with socket.create_server(("127.0.0.1", port)), pytest.raises(Problems) as raised:
        supervisor.up(layout, [Process("first", SLEEP), Process("etcd", SLEEP, ports=(port,))], quiet)
    line = str(raised.value)
    assert line.startswith(f"error: port 127.0.0.1:{port} (for etcd): held by process {os.getpid()} (")
    assert line.endswith(f"; end it (kill {os.getpid()}), or set SANDBOX_PORT_BASE to the first of a free range")
    assert "\n" not in line
    assert records(layout) == {}
    with socket.create_server(("127.0.0.1", port)), pytest.raises(Problems) as raised:
        supervisor.check_ports(layout)
    assert str(raised.value) == line.replace("etcd)", "control-plane-etcd)")


def test_all_ports_of_another_sandbox_are_one_line_that_says_how_to_end_it(layout: Layout, tmp_path: Path) -> None:
    other = replace(layout, home=tmp_path / "other")
    state.prepare(other)
    ports = (other.control_plane.etcd_port, other.workload.etcd_port)
    theirs = [Process(f"p{port}", listener(port), ready=lambda port=port: answers(port)) for port in ports]  # type: ignore[misc]
    try:
        supervisor.up(other, theirs, quiet)
        with pytest.raises(Problems) as raised:
            supervisor.check_ports(layout)
        supervisor.check_ports(other)  # its own are no problem
    finally:
        supervisor.down(other, quiet)
    assert str(raised.value) == (
        f"error: port 127.0.0.1:{ports[0]} (for control-plane-etcd): held by another sandbox, {other.home}; "
        f"end that one (SANDBOX_HOME={other.home} {sys.executable} -m sandbox down), "
        "or set SANDBOX_PORT_BASE to the first of a free range"
    )


def test_a_port_that_the_wrong_process_of_this_sandbox_holds_is_one_line(layout: Layout) -> None:
    port = layout.port_base
    supervisor.up(layout, [Process("old", listener(port), ready=lambda: answers(port))], quiet)
    with pytest.raises(Problems, match=r"held by old of this sandbox; run `python -m sandbox down` first$"):
        supervisor.up(layout, [Process("new", SLEEP, ports=(port,))], quiet)


def test_a_port_in_time_wait_does_not_count_as_taken(layout: Layout) -> None:
    port = layout.port_base
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first and keeps the port in TIME_WAIT
        client.close()
    assert supervisor.up(layout, [Process("a", SLEEP, ports=(port,))], quiet) == ["a"]
