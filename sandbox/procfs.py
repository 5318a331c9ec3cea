"""What Linux's /proc says: who a process is, what it carries, who holds a TCP port. Reads only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# State column of /proc/net/tcp: TCP_LISTEN (include/net/tcp_states.h).
_LISTEN = "0A"
# A command line of a terminal is recognised by its start.
_COMMAND_LIMIT = 80


@dataclass(frozen=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that identify a process. started: clock ticks since boot."""

    pid: int
    state: str
    group: int
    session: int
    threads: int
    started: int

    @property
    def alive(self) -> bool:
        """False for a zombie: it runs nothing and holds nothing but its number.

        While other threads of a killed process still end, its first one is a zombie already, but its ports are held.
        """
        return self.state not in "ZX" or self.threads > 1


def stat(pid: int) -> ProcessStat | None:
    """None when there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command in parentheses may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(pid, fields[0], int(fields[2]), int(fields[3]), int(fields[17]), int(fields[19]))


def stats() -> Iterator[ProcessStat]:
    """Every process that can be seen."""
    for pid in _pids():
        if found := stat(pid):
            yield found


def boot_id() -> str:
    """Changes at every boot: start times in ticks are only comparable within one boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def environ(pid: int) -> dict[str, str]:
    """The environment that a process was started with; {} when it cannot be read (another user's process)."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}


def command(pid: int) -> str:
    """The command line of a process as one line; "" when it cannot be read."""
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return " ".join(os.fsdecode(part) for part in raw.split(b"\0") if part)


@dataclass(frozen=True)
class PortHolder:
    """Who listens on a port. pid is None when that is not readable (another user's process)."""

    port: int
    pid: int | None
    command: str

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another user"
        shown = self.command if len(self.command) <= _COMMAND_LIMIT else self.command[: _COMMAND_LIMIT - 1] + "…"
        return f"process {self.pid} ({shown or 'command not readable'})"


def port_holder(port: int) -> PortHolder | None:
    """The process that listens on a TCP port of any local address; None when nobody does."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for pid in _pids():
        if sockets & _open_files(pid):
            return PortHolder(port, pid, command(pid))
    return PortHolder(port, None, "")


def _listening_inodes(port: int) -> set[str]:
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):  # ended meanwhile, or another user's
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()))
    return found
