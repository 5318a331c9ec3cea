"""The real vLLM as a process of a test, started as a container starts it: `python -m sandbox.engines.real`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandbox.engines import real
from sandbox.layout import Layout
from tests.sandbox.engines.fake import Fake

# A start takes about a minute of processor time, more when others want it too.
START_SECONDS = 600


@contextmanager
def vllm(folder: Path, args: Sequence[str], host: str, model: str) -> Iterator[Fake]:
    """It serves, in a session of its own; at the end nothing of that session is left."""
    layout = Layout.from_env()
    real.ensure(layout, print)
    output = folder / f"{host}.log"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(layout.repository), **layout.env()}
    with output.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "sandbox.engines.real", *args, "--host", host],
            env={**env, "VLLM_LOG_STATS_INTERVAL": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    found = Fake(host, child, output, model=model)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _healthy(found):
            assert child.poll() is None, found.text()[-3000:]
            assert time.monotonic() < deadline, found.text()[-3000:]
            time.sleep(0.5)
        yield found
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _healthy(found: Fake) -> bool:
    try:
        return bool(found.request("GET", "/health")[0] == 200)
    except OSError:
        return False
