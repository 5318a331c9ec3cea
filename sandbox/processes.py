"""One supervised process: what it is, its record on disk, its start and its end.

A record is written before the program runs (the child waits for that), so that no process is ever started that the
next command does not know of, even when this one is killed at any point. A record names pid, start time and boot, so
that a pid that has been reused by another program is never taken for ours.

A process that starts further sessions (containers) hands on MARK_HOME and MARK_NAME, so that `down` finds them too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandbox import procfs, state
from sandbox.layout import Layout

# Marks of a process of this sandbox and of all that it starts: found by `down` when a crash left no other trace.
MARK_HOME = "SANDBOX_SUPERVISED_BY"
MARK_NAME = "SANDBOX_SUPERVISED_AS"
# What a process takes over from the caller's environment; anything else would make its behaviour depend on the shell.
INHERITED = ("HOME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "XDG_CACHE_HOME")
# Waits for one line, then becomes the program: same pid, same start time. End of file (the caller died) means: give up.
_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sandbox-gate")
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Process:
    """A process that the sandbox keeps.

    name: unique, also the log file's name; argv: absolute program and arguments; env: added to the few inherited ones.
    ready: answers quickly whether it serves (None: running is enough).
    after: names of processes that must be ready before it starts, and that end after it.
    ports: loopback ports it listens on.
    files: configuration, certificates or sources (a folder stands for its ``*.py``): a change of their content restarts
    the process at the next `up`, as a change of argv or env does.
    ready_seconds, stop_seconds: how long until ready, and from SIGTERM to SIGKILL.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], bool] | None = None
    after: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    files: tuple[Path, ...] = ()
    cwd: Path | None = None
    ready_seconds: float = 60
    stop_seconds: float = 10

    def digest(self) -> str:
        """Changes when what would be started changes."""
        digest = hashlib.sha256(json.dumps([self.argv, sorted(self.env.items()), str(self.cwd)]).encode())
        for path in _expanded(self.files):
            digest.update(str(path).encode())
            with contextlib.suppress(FileNotFoundError):
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


@dataclass(frozen=True)
class Record:
    """What is known on disk of a started process. started: clock ticks since the boot named by boot."""

    name: str
    pid: int
    started: int
    boot: str
    argv: tuple[str, ...]
    digest: str
    after: tuple[str, ...]
    stop_seconds: float

    @property
    def running(self) -> bool:
        """True only for the very process that was started, not for one that has its number today."""
        found = procfs.stat(self.pid)
        return found is not None and found.alive and found.started == self.started and self.boot == procfs.boot_id()


def record_path(layout: Layout, name: str) -> Path:
    return layout.processes / f"{name}.json"


def records(layout: Layout) -> dict[str, Record]:
    """All records by name, running or not. An unreadable one counts as absent."""
    found: dict[str, Record] = {}
    if not layout.processes.is_dir():
        return found
    for path in sorted(layout.processes.glob("[!.]*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            document = json.loads(path.read_text())
            found[path.stem] = Record(
                **{**document, "argv": tuple(document["argv"]), "after": tuple(document["after"])}
            )
    return found


def start(layout: Layout, process: Process) -> Record:
    """Start a process in its own session with its own log file. Returns once its record is on disk."""
    log = layout.log(process.name)
    with contextlib.suppress(FileNotFoundError):
        log.replace(log.with_suffix(".previous.log"))
    env = {key: os.environ[key] for key in INHERITED if key in os.environ}
    env |= {**layout.env(), **process.env, MARK_HOME: str(layout.home), MARK_NAME: process.name}
    with log.open("wb") as output:
        child = subprocess.Popen(
            [*_GATE, *process.argv],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=process.cwd or layout.home,
            start_new_session=True,
        )
    assert child.stdin is not None
    with child.stdin as gate:
        found = procfs.stat(child.pid)
        assert found is not None  # a child that was not waited for keeps its entry
        record = Record(
            process.name,
            child.pid,
            found.started,
            procfs.boot_id(),
            process.argv,
            process.digest(),
            process.after,
            process.stop_seconds,
        )
        state.write(record_path(layout, process.name), json.dumps(asdict(record), indent=1))
        with contextlib.suppress(BrokenPipeError):
            gate.write(b"go\n")
    # Nobody waits for the child here: a zombie counts as ended, and a later command is not its parent anyway.
    child.returncode = 0
    return record


def stop(layout: Layout, found: Collection[Record]) -> list[str]:
    """End processes with all of their groups: SIGTERM, then SIGKILL. Returns the names of those that were running."""
    stopping = [record for record in found if record.running]
    deadlines = {}
    for record in stopping:
        _signal_group(record.pid, signal.SIGTERM)
        deadlines[record.pid] = time.monotonic() + record.stop_seconds
    end_groups(deadlines)
    for record in found:
        record_path(layout, record.name).unlink(missing_ok=True)
    return [record.name for record in stopping]


def end_groups(deadlines: Mapping[int, float]) -> None:
    """Wait for process groups that got SIGTERM; SIGKILL each at its deadline (time.monotonic()), until all are gone."""
    left = dict(deadlines)
    while left := {group: left[group] for group in _living_groups(left)}:
        for group, deadline in left.items():
            if time.monotonic() >= deadline:
                _signal_group(group, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def marked(layout: Layout) -> dict[int, str]:
    """Every living process that carries this sandbox's mark: pid to the name it was started as or under."""
    found: dict[int, str] = {}
    for item in procfs.stats():
        if item.alive and item.pid != os.getpid():
            env = procfs.environ(item.pid)
            if env.get(MARK_HOME) == str(layout.home):
                found[item.pid] = env.get(MARK_NAME, "")
    return found


def end_marked(pids: Iterable[int], stop_seconds: float = 5) -> list[int]:
    """End the sessions of marked processes (a session also holds children that changed their environment).

    The session of the caller is spared, should someone run the sandbox's command from inside of it.
    """
    own = os.getsid(0)
    sessions = {item.session for pid in pids if (item := procfs.stat(pid))} - {own}
    groups = {item.group for item in procfs.stats() if item.alive and item.session in sessions}
    for group in groups:
        _signal_group(group, signal.SIGTERM)
    end_groups(dict.fromkeys(groups, time.monotonic() + stop_seconds))
    return sorted(groups)


def last_line(log: Path) -> str:
    """The last non-empty line of a log, "" when there is none."""
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines()[-50:] if line.strip()]
        return lines[-1].strip() if lines else ""
    return ""


def _living_groups(groups: Iterable[int]) -> set[int]:
    wanted = set(groups)
    return {item.group for item in procfs.stats() if item.alive and item.group in wanted} if wanted else set()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _expanded(files: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in files:
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found
