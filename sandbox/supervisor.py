"""`up` and `down` over a set of processes: starts what is missing or changed, leaves the rest, ends everything."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from engine.findings import Finding, Problems, Severity
from sandbox import procfs
from sandbox.layout import LOOPBACK, Layout
from sandbox.processes import (
    MARK_HOME,
    Process,
    Record,
    end_marked,
    last_line,
    marked,
    records,
    start,
    stop,
)
from sandbox.steps import Say

_POLL_SECONDS = 0.05
# A killed API server gives back half a gigabyte before its port is free; on a busy machine that takes a while.
_ENDING_SECONDS = 5


def up(layout: Layout, processes: Sequence[Process], say: Say) -> list[str]:
    """Make all of these run and be ready. Returns the names of those that were started.

    Problems, one line each, for a taken port (before anything is started), a process that ends, and one that never
    gets ready.
    What was started keeps running after a problem or Ctrl-C: the next `up` goes on from there, `down` ends it.
    """
    _end_orphans(layout, say)
    known = records(layout)
    wanted = {process.name: process for process in processes}
    kept = {name for name in wanted if name in known and known[name].running}
    changed = [known[name] for name in kept if known[name].digest != wanted[name].digest()]
    for record in changed:
        say(f"restarting {record.name}: its configuration changed")
    stop(layout, changed)
    kept -= {record.name for record in changed}
    to_start = [process for process in processes if process.name not in kept]
    _check_ports(layout, {port: process.name for process in to_start for port in process.ports}, ours_too=True)
    _start_in_order(layout, processes, {name: known[name] for name in kept})
    return [process.name for process in to_start]


def _start_in_order(layout: Layout, processes: Sequence[Process], kept: Mapping[str, Record]) -> None:
    """Start each process as soon as what it comes after is ready; return when all are. kept: those that run already."""
    running = dict(kept)
    ready: set[str] = set()
    names = {process.name for process in processes}
    deadlines: dict[str, float] = {}
    while len(ready) < len(processes):
        for process in processes:
            name = process.name
            if name in ready or not ready.issuperset(set(process.after) & names):
                continue
            # One that was to be kept may end meanwhile: it is started once more, as any other.
            if name not in running or (running[name] is kept.get(name) and not running[name].running):
                running[name] = start(layout, process)
            deadline = deadlines.setdefault(name, time.monotonic() + process.ready_seconds)
            # The state is read before the probe: a process that answered a moment ago may have ended since.
            if process.ready is None or process.ready():
                if not running[name].running:
                    raise Problems([_ended(layout, process)])
                ready.add(name)
            elif not running[name].running:
                raise Problems([_ended(layout, process)])
            elif time.monotonic() > deadline:
                raise Problems([_never_ready(layout, process)])
        time.sleep(_POLL_SECONDS if len(ready) < len(processes) else 0)


def down(layout: Layout, say: Say) -> list[str]:
    """End every process of this sandbox, what depends on others first, and what crashes left of it. Idempotent."""
    known = records(layout)
    names: list[str] = []
    while known:
        needed = {name for record in known.values() if record.running for name in record.after}
        wave = [record for record in known.values() if record.name not in needed] or list(known.values())
        stopped = stop(layout, wave)
        if stopped:
            say("stopped " + ", ".join(stopped))
        names += stopped
        known = {name: record for name, record in known.items() if record not in wave}
    _end_orphans(layout, say)
    return names


def _end_orphans(layout: Layout, say: Say) -> None:
    """End what carries this sandbox's mark but has no process on record (after kill -9, or a removed .sandbox)."""
    living = {name for name, record in records(layout).items() if record.running}
    orphans = [pid for pid, name in marked(layout).items() if name not in living]
    if orphans:
        say(f"ending {len(orphans)} process(es) that an earlier run left: {', '.join(map(str, orphans))}")
        end_marked(orphans)


def check_ports(layout: Layout) -> None:
    """Problems, one line for each holder, when a port of the layout is taken by anything but this sandbox."""
    _check_ports(layout, {port: name for name, port in layout.ports.items()}, ours_too=False)


def _check_ports(layout: Layout, ports: Mapping[int, str], *, ours_too: bool) -> None:
    """ports: what each is for. ours_too: also what a process of this sandbox holds, which then is the wrong one."""
    names = {record.pid: record.name for record in records(layout).values() if record.running}
    findings: dict[str, Finding] = {}
    for port in _taken(ports):
        path = f"port {LOOPBACK}:{port} (for {ports[port]})"
        holder = procfs.port_holder(port)
        if holder is None or holder.pid is None:
            why, remedy = "held by a process of another user", "set SANDBOX_PORT_BASE to the first of a free range"
            findings[path] = Finding(Severity.ERROR, path, None, why, remedy)
            continue
        home = procfs.environ(holder.pid).get(MARK_HOME)
        if home == str(layout.home):
            if ours_too:
                why = f"held by {names.get(holder.pid, holder)} of this sandbox"
                findings[path] = Finding(Severity.ERROR, path, None, why, "run `python -m sandbox down` first")
        elif home:
            # One line for all of its ports: two checkouts with the same port range.
            why, remedy = f"held by another sandbox, {home}", "set SANDBOX_PORT_BASE to the first of a free range"
            remedy = f"end that one (SANDBOX_HOME={home} {sys.executable} -m sandbox down), or {remedy}"
            findings.setdefault(home, Finding(Severity.ERROR, path, None, why, remedy))
        else:
            remedy = f"end it (kill {holder.pid}), or set SANDBOX_PORT_BASE to the first of a free range"
            findings[path] = Finding(Severity.ERROR, path, None, f"held by {holder}", remedy)
    if findings:
        raise Problems(findings.values())


def _taken(ports: Iterable[int]) -> list[int]:
    """The ports that cannot be bound. One that nobody visibly holds gets the time of a killed process's end."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while taken := [port for port in ports if not _free(port)]:
        if all((holder := procfs.port_holder(port)) and holder.pid for port in taken) or time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    return taken


def _free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        # As servers do: a connection of an earlier run in TIME_WAIT does not take the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _ended(layout: Layout, process: Process) -> Finding:
    log = layout.log(process.name)
    why = f"ended at its start: {last_line(log) or 'without a word'}"
    return Finding(Severity.ERROR, f"process {process.name}", None, why, f"see {log}")


def _never_ready(layout: Layout, process: Process) -> Finding:
    log = layout.log(process.name)
    why = f"runs but does not answer after {process.ready_seconds:.0f} s: {last_line(log) or 'its log is empty'}"
    return Finding(Severity.ERROR, f"process {process.name}", None, why, f"see {log}; `make down` ends it")
