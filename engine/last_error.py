"""The error that ended an engine, out of its log: the deepest exception, not the wrappers that follow it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.lines import LogLine, read_lines
from engine.redact import redact

# An error is shown whole; beyond this it is a dump.
_LONGEST = 4000
# Lines that an error's own message may go on for, torch's and the hub's among them.
_MESSAGE_LINES = 12
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Interrupt|Timeout))(?::\s*(?P<why>.*))?$"
)
_ARGPARSE = re.compile(r"(?:\S+\.py|vllm(?: \w+)?|\S+): error: .+")
_FATAL = re.compile(r"(?:Fatal Python error|Segmentation fault|Killed$|terminate called after|Bus error)")
# They only say that something else failed, or that the process was told to end.
_WRAPPERS = re.compile(
    r"Engine core initialization failed|Engine process failed to start|EngineDeadError|See root cause above"
    r"|See stack trace|WorkerProc initialization failed|Frontend process failed|EngineCore encountered an issue"
    r"|(?:CancelledError|KeyboardInterrupt|SystemExit|GeneratorExit|BrokenPipeError|ConnectionResetError)\b"
)
# From here on the engine was told to end, and what breaks in it is noise.
_SHUTDOWN = re.compile(r"(?m)^[^\n]*(?:\[shutdown\] API server: shutdown triggered|INFO: +Shutting down)")
_STARTED = re.compile(r"LLM engine \(v|non-default args: ")
_DEAD = re.compile(r"EngineDeadError|EngineCore encountered an issue|Engine core initialization failed")
# What follows a message and is none of it: the next traceback, uvicorn, a warning of Python, of torch or of NCCL.
_NEXT = re.compile(
    r"Traceback |During handling of|The above exception|Process \w+|File \"|\[rank|(?:DEBUG|INFO|WARNING|ERROR)\b"
    r"|\S+\.py:\d+: |usage: |[{<]"
)


def last_error(log: str | Iterable[str]) -> str | None:
    """The last error of a log as one redacted line, None when it shows none.

    Order of trust: an exception (or a refused argument, or a crash); then a wrapper; then vLLM's last ERROR line.
    """
    lines = list(read_lines(before_shutdown(log)))
    real: str | None = None
    wrapper: str | None = None
    logged: str | None = None
    for index, line in enumerate(lines):
        text = line.message.strip()
        if _EXCEPTION.match(text) or _ARGPARSE.match(text) or _FATAL.match(text):
            if _WRAPPERS.search(text):
                wrapper = text
            else:
                real = _with_details(text, lines, index)
        elif line.level in ("ERROR", "CRITICAL") and not _is_traceback(line):
            logged = text
    found = real or wrapper or logged
    return _quoted(redact(found)) if found else None


def last_line(log: str) -> str:
    """The last line that says anything, redacted; "" without one."""
    said = [line.message.strip() for line in read_lines(log)]
    return _quoted(redact(next((text for text in reversed(said) if text), "")))


def before_shutdown(log: str | Iterable[str]) -> str:
    """The part of a log before the engine was told to end; all of it when it was started again after that."""
    text = log if isinstance(log, str) else "\n".join(log)
    starts = [match.end() for match in _STARTED.finditer(text)]
    match = _SHUTDOWN.search(text, starts[-1] if starts else 0)
    return text[: match.start()] if match else text


def engine_died(log: str) -> bool:
    """Whether the log says that the engine process ended by itself (also after it had been serving)."""
    return bool(_DEAD.search(before_shutdown(log)))


def _with_details(text: str, lines: list[LogLine], index: int) -> str:
    """The message with the lines that it goes on for; pydantic's link to its manual is left out."""
    first, parts = lines[index], [text]
    for line in lines[index + 1 : index + 1 + _MESSAGE_LINES]:
        said = line.message.strip()
        if (line.process, line.level) != (first.process, first.level) or _ends_message(said):
            break
        if said and "For further information" not in said:
            parts.append(said)
    return " ".join(parts)


def _ends_message(text: str) -> bool:
    return any(pattern.match(text) for pattern in (_NEXT, _EXCEPTION, _ARGPARSE, _FATAL))


def _quoted(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _is_traceback(line: LogLine) -> bool:
    text = line.message
    return not text.strip() or text.startswith((" ", "\t", "Traceback", "^")) or set(text.strip()) <= {"^", "~"}
