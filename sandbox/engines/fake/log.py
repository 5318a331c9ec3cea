"""The fake engine's log, in the dialect of its version: prefixes, colours, file names and line forms."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.versions import EngineFeatures

Process = Literal["APIServer", "EngineCore", "Worker"]
# Process numbers in a container: the server is the first process, the others come after what it runs at start.
_PIDS: dict[Process, int] = {"APIServer": 0, "EngineCore": 132, "Worker": 195}


@dataclass(frozen=True)
class Sources:
    """`file:line` of the lines that a reader may look for, as seen in the version."""

    args: str
    core: str
    stats: str
    spec: str
    kv: str


_SOURCES: tuple[tuple[int, Sources], ...] = (
    (30, Sources("api_utils.py:286", "core.py:133", "loggers.py:335", "metrics.py:120", "kv_cache_utils.py:2327")),
    (18, Sources("api_utils.py:273", "core.py:113", "loggers.py:271", "metrics.py:101", "kv_cache_utils.py:1711")),
    (0, Sources("utils.py:253", "core.py:93", "loggers.py:236", "metrics.py:100", "kv_cache_utils.py:1229")),
)


class Log:
    """Writes lines to stdout, each at once: whoever follows the log sees it as it happens."""

    def __init__(self, features: EngineFeatures, write: Callable[[str], object] | None = None) -> None:
        self._style = features.prefix
        self.core_process = features.core_process
        self.sources = next(found for minor, found in _SOURCES if features.since.minor >= minor)
        self._write = write or sys.stdout.write
        # Lines go nowhere until this is set (a log whose start has been rotated away).
        self.muted = False
        self._pid = os.getpid()

    def info(self, process: Process, source: str, message: str) -> None:
        self._line(process, "INFO", source, message)

    def warning(self, process: Process, source: str, message: str) -> None:
        self._line(process, "WARNING", source, message)

    def error(self, process: Process, source: str, message: str) -> None:
        self._line(process, "ERROR", source, message)

    def raw(self, process: Process, text: str) -> None:
        """What is not from vLLM's logger (uvicorn, tracebacks): with a prefix where the version wraps its output."""
        self._print(("" if self._style == "formatter" else self._prefix(process)) + text)

    def _line(self, process: Process, level: str, source: str, message: str) -> None:
        place = source if ":" in source else f"{source}:100"
        stamp = time.strftime("%m-%d %H:%M:%S")
        self._print(f"{self._prefix(process)}{level} {stamp} [{place}] {message}")

    def _prefix(self, process: Process) -> str:
        name = self.core_process if process == "EngineCore" else process
        prefix = f"({name} pid={self._pid + _PIDS[process]})"
        return f"\x1b[1;36m{prefix}\x1b[0;0m " if self._style == "coloured" else f"{prefix} "

    def _print(self, line: str) -> None:
        if not self.muted:
            self._write(line + "\n")
            if self._write == sys.stdout.write:
                sys.stdout.flush()
