"""`python -m sandbox.runner`: play the kubelet of all nodes until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import sys

from sandbox import processes
from sandbox.layout import Layout
from sandbox.runner import kubelet, process
from sandbox.runner.timing import Timing
from sandbox.runner.view import NAME


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # One line for each request would be most of the log.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    layout = Layout.from_env()
    if why := process.check():
        print(f"error: {why}", file=sys.stderr)
        return 1
    layout.pods.mkdir(parents=True, exist_ok=True)
    with (layout.home / "runner.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"error: {layout.home}: another runner plays the kubelet of this sandbox", file=sys.stderr)
            return 1
        _end_orphans(layout)
        asyncio.run(_run(layout))
    return 0


async def _run(layout: Layout) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await kubelet.run(layout, Timing(), stop)


def _end_orphans(layout: Layout) -> None:
    """End containers that a killed runner left. Most died with it; the lock says that none of them has a runner now."""
    orphans = [pid for pid, name in processes.marked(layout).items() if name == NAME and pid != os.getpid()]
    if orphans:
        ended = processes.end_marked(orphans, stop_seconds=1)
        logging.getLogger(__name__).warning("ended %d container(s) that an earlier runner left", len(ended))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
