"""The state directory: written atomically, changed by one command at a time, refused when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.findings import Finding, Problems, Severity
from sandbox.layout import Layout

# Two etcds preallocate 64 MB of write-ahead log each and keep a second segment ready; logs and volumes come on top.
UP_NEEDS_BYTES = 600 * 2**20


def write(path: Path, data: str | bytes, mode: int = 0o600) -> bool:
    """Write a file as a whole or not at all, and only when its content differs. True when it was written."""
    raw = data.encode() if isinstance(data, str) else data
    with contextlib.suppress(OSError):
        if path.read_bytes() == raw and path.stat().st_mode & 0o777 == mode:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True


def prepare(layout: Layout) -> None:
    """Make the state directory, readable by its user only (it holds cluster-admin keys)."""
    layout.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (layout.logs, layout.processes, layout.bin, layout.tools, layout.pods):
        folder.mkdir(exist_ok=True)


def need_space(folder: Path, needed: int, what: str) -> None:
    """Problems, one line, when the file system of a folder has less room than needed (bytes)."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise Problems([_no_space(str(folder), f"{free >> 20} MiB free, {what} needs {needed >> 20} MiB")])


@contextlib.contextmanager
def disk_full_as_problem(layout: Layout) -> Iterator[None]:
    """Turns "no space left on device" into one line, wherever it came from."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Problems([_no_space(str(error.filename or layout.home), "no space left on this file system")]) from error


def _no_space(path: str, why: str) -> Finding:
    remedy = (
        "free some space, or set SANDBOX_HOME (state) or SPECULATION_CACHE (binaries, models) to another file system"
    )
    return Finding(Severity.ERROR, path, None, why, remedy)


@contextlib.contextmanager
def locked(layout: Layout, command: str) -> Iterator[None]:
    """Only one command changes a sandbox at a time: a second one gets Problems, one line, and changes nothing.

    The kernel drops the lock with the process that holds it, so a killed command leaves none behind.
    """
    layout.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with layout.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another command"
            why = f"{holder} is changing this sandbox"
            raise Problems([Finding(Severity.ERROR, str(layout.home), None, why, "wait until it has ended")]) from None
        file.truncate(0)
        file.write(f"`{command}` (process {os.getpid()})")
        file.flush()
        yield
        file.truncate(0)
