"""A line of an engine's log, whatever printed it: vLLM of any version, one of its processes, uvicorn, a traceback.

0.11 colours the process name even in a file, 0.18-0.31 wrap stdout, from 0.32 on only vLLM's own logger names the
process; `kubectl logs` may put a timestamp or a pod in front. All of it is optional here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Timestamp and pod of `kubectl logs --timestamps --prefix`, stream and tag of a CRI log file.
_KUBERNETES = re.compile(
    r"^(?:\[pod/[^\]]{1,300}\] )?(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )?(?:std(?:out|err) [FP] )?"
)
_PROCESS = re.compile(r"^\((?P<process>[A-Za-z]\w*(?:[-_]\w+)*) pid=(?P<pid>\d{1,10})\) ?")
_HEADER = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<source>[^\]\s]{1,200})\] ?"
)


@dataclass(frozen=True)
class LogLine:
    """One line, without colours.

    message: the text without its prefixes; process, pid: who printed it; level, time ("MM-DD HH:MM:SS", the year is
    not logged), source: of vLLM's own logger. None when the line does not say.
    """

    message: str
    process: str | None = None
    pid: int | None = None
    level: str | None = None
    time: str | None = None
    source: str | None = None


def read_line(raw: str) -> LogLine:
    """Take a line apart."""
    text = _ANSI.sub("", raw).rstrip("\r\n")
    kubernetes = _KUBERNETES.match(text)
    text = text[kubernetes.end() :] if kubernetes else text
    process = _PROCESS.match(text)
    if process:
        text = text[process.end() :]
    header = _HEADER.match(text)
    return LogLine(
        message=text[header.end() :] if header else text,
        process=process["process"] if process else None,
        pid=int(process["pid"]) if process else None,
        level=header["level"] if header else None,
        time=header["time"] if header else None,
        source=header["source"] if header else None,
    )


def read_lines(log: str | Iterable[str]) -> Iterator[LogLine]:
    """All lines of a log given as text or as lines; progress bars end theirs with a carriage return."""
    chunks = [log] if isinstance(log, str) else log
    for chunk in chunks:
        for raw in re.split(r"\r\n|\n|\r", chunk):
            if raw:
                yield read_line(raw)
