"""A small HTTP/1.1 server on asyncio streams: what the fake engine needs, without the import time of a framework.

Keep-alive, bodies by Content-Length or chunked, whole and streamed responses. A client that goes cancels its handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

# Longest head and body that are read: a prompt of a million characters fits.
_HEAD_LIMIT, _BODY_LIMIT = 64 * 1024, 64 * 2**20
# An idle connection is closed after this long, as uvicorn does by default.
_KEEP_ALIVE_SECONDS = 5


class CutError(Exception):
    """Raised by a stream to break its connection off."""


@dataclass(frozen=True)
class Request:
    """One request; headers by lower-case name; peer: "address:port"."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    peer: str


@dataclass(frozen=True)
class Response:
    """A whole response, or one whose body is streamed."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: object, status: int = 200) -> Response:
        return cls(status, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


Handler = Callable[[Request], Awaitable[Response]]
Seen = Callable[[Request, int], None]


class Server:
    """Serves one handler. seen: called once for each answered request with its status."""

    def __init__(self, handler: Handler, seen: Seen) -> None:
        self._handler = handler
        self._seen = seen
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._connected, host, port, limit=_HEAD_LIMIT, backlog=2048)

    async def stop(self, seconds: float) -> None:
        """Accept nothing more; give open requests some seconds to finish."""
        assert self._server is not None
        self._server.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=seconds)
        for connection in self._connections:
            connection.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(reader, writer, self._handler, self._seen).run()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, CutError):
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()


class _Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler, seen: Seen
    ) -> None:
        self._reader, self._writer = reader, writer
        self._handler, self._seen = handler, seen
        self._pushed = b""
        host, port = writer.get_extra_info("peername")[:2]
        self._peer = f"{host}:{port}"

    async def run(self) -> None:
        while True:
            try:
                request = await asyncio.wait_for(self._read(), _KEEP_ALIVE_SECONDS)
            except TimeoutError:
                return
            if request is None or not await self._answer(request):
                return

    async def _read(self) -> Request | None:
        head = self._pushed
        self._pushed = b""
        try:
            head += await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        path = rest.rpartition(" ")[0].partition("?")[0]
        return Request(method, path, headers, await self._body(headers), self._peer)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            length = headers.get("content-length", "0")
            if not length.isdigit() or int(length) > _BODY_LIMIT:
                raise CutError
            return await self._reader.readexactly(int(length))
        parts: list[bytes] = []
        while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return b"".join(parts)

    async def _answer(self, request: Request) -> bool:
        """Answer one request; whether the connection stays open."""
        work = asyncio.ensure_future(self._respond(request))
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not work.done():
                self._pushed = gone.result()
                if not self._pushed:
                    return False
            await work
        finally:
            await _ended(work)
            if await _ended(gone):
                self._pushed = self._pushed or gone.result()
        return request.headers.get("connection", "").lower() != "close"

    async def _respond(self, request: Request) -> None:
        response = await self._handler(request)
        self._seen(request, response.status)
        reason = HTTPStatus(response.status).phrase
        size = "transfer-encoding: chunked" if response.stream else f"content-length: {len(response.body)}"
        lines = [
            f"HTTP/1.1 {response.status} {reason}",
            "server: uvicorn",
            size,
            f"content-type: {response.content_type}",
        ]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if response.stream is None:
            self._writer.write(head + (b"" if request.method == "HEAD" else response.body))
            await self._writer.drain()
            return
        self._writer.write(head)
        async with contextlib.aclosing(response.stream) as stream:  # type: ignore[type-var]
            async for part in stream:
                self._writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await self._writer.drain()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


async def _ended(task: asyncio.Future[object] | asyncio.Future[None] | asyncio.Future[bytes]) -> bool:
    """Cancel a task that still runs; whether it had ended well by itself."""
    if task.done():
        return not task.cancelled() and task.exception() is None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
    return False
