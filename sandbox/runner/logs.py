"""Container logs in CRI format: `<RFC 3339 time, nanoseconds> <stdout|stderr> <F|P> <line>`; P: the line goes on."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

Stream = Literal["stdout", "stderr"]
# containerd cuts longer lines into parts of this size (bytes).
_PART = 16 * 1024


class CriLog:
    """The log file of one run of a container."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: who follows the log must see a line when it was written.
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._rest: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    def write(self, stream: Stream, data: bytes) -> None:
        """Add what came from the stream; an unfinished line waits for its end or for a full part."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        out = [entry for line in lines for entry in _entries(stream, line)]
        while len(rest) > _PART:
            out.append(_entry(stream, b"P", rest[:_PART]))
            rest = rest[_PART:]
        self._rest[stream] = rest
        if out:
            self._file.write(b"".join(out))

    def close(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self._file.write(b"".join(_entries(stream, rest)))
        self._rest = {"stdout": b"", "stderr": b""}
        self._file.close()

    def __enter__(self) -> CriLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def tail(path: Path, lines: int, size: int) -> str:
    """The last lines of a CRI log without their prefix, at most size bytes: what FallbackToLogsOnError reports."""
    try:
        # Room for each entry's prefix, and for the entry that the cut goes through.
        raw = path.read_bytes()[-(size + 64 * lines + _PART) :]
    except OSError:
        return ""
    texts = [entry.split(b" ", 3)[3] for entry in raw.splitlines() if entry.count(b" ") >= 3]
    return b"\n".join(texts[-lines:])[-size:].decode(errors="replace")


def log_path(folder: Path, restart: int) -> Path:
    return folder / f"{restart}.log"


def rotate(folder: Path, restart: int) -> None:
    """Point current.log and previous.log at the last two runs' logs, and drop older ones, as a kubelet does."""
    for name, number in (("current.log", restart), ("previous.log", restart - 1)):
        link = folder / name
        link.unlink(missing_ok=True)
        if log_path(folder, number).exists():
            link.symlink_to(f"{number}.log")
    for old in folder.glob("*.log"):
        if old.stem.isdigit() and int(old.stem) < restart - 1:
            old.unlink(missing_ok=True)


def _entries(stream: Stream, line: bytes) -> list[bytes]:
    parts = [line[at : at + _PART] for at in range(0, len(line), _PART)] or [b""]
    return [_entry(stream, b"P", part) for part in parts[:-1]] + [_entry(stream, b"F", parts[-1])]


def _entry(stream: Stream, tag: bytes, text: bytes) -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{nanoseconds:09d}Z {stream} ".encode() + tag + b" " + text + b"\n"
