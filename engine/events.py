"""Server-sent events, byte by byte: events come out the same however the network cuts the stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SseEvent:
    """One event: its data lines joined by newlines, and its name ("message" when the stream gives none)."""

    data: str
    name: str = "message"


class SseParser:
    """Feed it bytes as they come, take the events that are complete.

    Line ends are LF, CRLF or CR; lines beginning with ":" are comments; a line may be of any length; text is UTF-8,
    with U+FFFD for bytes that are not.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        # Bytes of the buffer that were searched for a line end already: a long line is scanned once.
        self._searched = 0
        self._after_cr = False
        self._started = False
        self._data: list[str] = []
        self._name = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes."""
        events: list[SseEvent] = []
        if not self._after_cr and b"\r" not in chunk:
            # What engines send: lines end with LF alone, and no line end stands in the buffer.
            first, *rest = chunk.split(b"\n")
            self._buffer += first
            if rest:
                self._line(bytes(self._buffer), events)
                for line in rest[:-1]:
                    self._line(line, events)
                self._buffer[:] = rest[-1]
            self._searched = len(self._buffer)
            return events
        self._buffer += chunk
        start = 0
        while (end := self._line_end(start)) >= 0:
            line = bytes(self._buffer[start:end])
            # The LF of a CRLF may come with the next chunk: an empty line right after a CR is no line.
            if not (self._after_cr and end == start and self._buffer[end] == _LF):
                self._line(line, events)
            self._after_cr = self._buffer[end] == _CR
            start = end + 1
            self._searched = start
        del self._buffer[:start]
        self._searched = len(self._buffer)
        return events

    def finish(self) -> list[SseEvent]:
        """The stream has ended: the event whose closing blank line is missing, if any."""
        events: list[SseEvent] = []
        if self._buffer:
            self._line(bytes(self._buffer), events)
            self._buffer.clear()
        self._line(b"", events)
        return events

    def _line_end(self, start: int) -> int:
        begin = max(start, self._searched)
        found = [place for place in (self._buffer.find(b"\n", begin), self._buffer.find(b"\r", begin)) if place >= 0]
        return min(found, default=-1)

    def _line(self, raw: bytes, events: list[SseEvent]) -> None:
        if not self._started:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
            self._started = True
        if not raw:
            if self._data:
                events.append(SseEvent("\n".join(self._data), self._name or "message"))
            self._data, self._name = [], ""
            return
        if raw.startswith(b"data: "):
            self._data.append(raw[6:].decode("utf-8", "replace"))
            return
        field, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value


_LF, _CR = 0x0A, 0x0D
