"""A local server that answers as engines and gateways do at their worst: every byte and every cut is the test's."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Write = Callable[[bytes], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
# As an answer: nothing comes, and the connection stays.
HANG = b"hang"
MODELS = {"data": [{"id": "m", "parent": None}]}


def event(payload: object) -> bytes:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def delta(text: str | None, tokens: int | None = None, **more: Any) -> bytes:
    """An event with text; tokens: the running count, if the engine sends one with each event."""
    choice = {"index": 0, "delta": {"content": text, **more}, "finish_reason": None}
    usage = {} if tokens is None else {"usage": {"prompt_tokens": 7, "completion_tokens": tokens}}
    return event({"choices": [choice], **usage})


def finish(reason: str = "stop") -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def usage(tokens: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}})


def chunked(*parts: bytes) -> bytes:
    """Bodies as HTTP chunks, with the end."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def answer(status: int, body: object) -> bytes:
    raw = json.dumps(body).encode()
    return b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(raw),
        raw,
    )


PLAIN = HEAD + chunked(delta("", role="assistant"), delta("é a"), delta("b"), finish(), usage(9), DONE)


@dataclass
class Hostile:
    """The server. answers: for the next completions, the last one for all after it; None in one: cut off there.

    pieces: how the bytes are written; seen: first lines and headers of requests; pages: other answers by path.
    """

    address: str = ""
    answers: list[bytes | None] = field(default_factory=lambda: [PLAIN])
    piece: int = 1 << 20
    pages: dict[str, list[bytes]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    open_now: int = 0
    open_most: int = 0
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.seen.append(head)
                length = next((int(line[16:]) for line in head.split("\r\n") if line.startswith("Content-Length: ")), 0)
                body = await reader.readexactly(length)
                if head.startswith("POST"):
                    self.bodies.append(json.loads(body))
                    raw = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                else:
                    raw = self.page(head.split(" ")[1])
                await self.write(writer, raw)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    def page(self, path: str) -> bytes:
        queue = self.pages.get(path)
        if queue:
            return queue.pop(0) if len(queue) > 1 else queue[0]
        return answer(200, MODELS) if path.endswith("/v1/models") else answer(404, {"detail": "Not Found"})

    async def write(self, writer: asyncio.StreamWriter, raw: bytes | None) -> None:
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        try:
            if raw == HANG:
                await asyncio.Event().wait()
            for place in range(0, len(raw or b""), self.piece):
                writer.write((raw or b"")[place : place + self.piece])
                await writer.drain()
                await asyncio.sleep(0)
            if raw is None or not whole(raw):
                raise ConnectionError
        finally:
            self.open_now -= 1


def whole(raw: bytes) -> bool:
    """Whether an answer says where it ends."""
    return raw.endswith(b"0\r\n\r\n") or b"Content-Length" in raw


@asynccontextmanager
async def hostile(tls: ssl.SSLContext | None = None, **settings: Any) -> Any:
    state = Hostile(**settings)
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0, ssl=tls)
    state.address = f"http{'s' * bool(tls)}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield state
    finally:
        server.close()
