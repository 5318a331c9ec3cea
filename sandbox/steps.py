"""The long steps of a set-up: one command at a time in a cache, with progress, none outliving the command."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

Say = Callable[[str], None]
# How often a step that is still running says so.
_SAY_EVERY_SECONDS = 30
_POLL_SECONDS = 0.2


def run(
    argv: Sequence[str | Path], what: str, say: Say, *, env: Mapping[str, str], cwd: Path | None = None
) -> tuple[int, str]:
    """Run a program to its end; its exit status and what it printed. what: how progress names it."""
    begun = said = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while child.poll() is None:
                time.sleep(_POLL_SECONDS)
                if time.monotonic() - said > _SAY_EVERY_SECONDS:
                    said = time.monotonic()
                    say(f"    {what}: {said - begun:.0f} s")
        finally:
            if child.poll() is None:
                # Not killed: a compiler's driver ends its own children first.
                child.terminate()
                child.wait()
        output.seek(0)
        return child.returncode, output.read()


@contextlib.contextmanager
def one_at_a_time(lock: Path, say: Say, waiting: str) -> Iterator[None]:
    """Hold a lock file; say `waiting` while another holds it. The kernel drops the lock with its holder."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
