"""HTTP/1.1 for a load client: one kept-alive connection on asyncio.Protocol, body bytes stamped as they are read.

General HTTP libraries cost two to five times the CPU of this on streams of small chunks, and hand bytes over later than
the socket gave them. No redirects, no proxies, no compression, no retries: each would stand between a token and its
time stamp.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from engine.findings import Finding, Problems, Severity

# A head longer than this is no answer of an engine or a gateway.
_MAX_HEAD = 64 * 1024
# A size line of a chunk, extensions included.
_MAX_SIZE_LINE = 1024
_CONNECT_S = 10.0

OnBody = Callable[[bytes, float], None]


class HttpError(Exception):
    """The connection did not give a whole answer: refused, cut off, or not HTTP."""


@dataclass(frozen=True)
class Url:
    """Where to connect. prefix: the path that stands before /v1 and /metrics, "" or "/…" without a slash at the end."""

    host: str
    port: int
    tls: bool
    prefix: str

    @classmethod
    def parse(cls, address: str, path: str = "address") -> Url:
        """Read an http(s) address; a given /v1 at its end is taken as said and dropped; Problems when it is none."""
        try:
            parts = urlsplit(address.strip())
            port = parts.port
        except ValueError:
            parts, port = SplitResult("", "", "", "", ""), None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            remedy = "give http://HOST[:PORT][/PREFIX]"
            raise Problems([Finding(Severity.ERROR, path, address, "not an http(s) address", remedy)])
        if parts.username is not None:
            remedy = "give the token in the environment (POLYAXON_TOKEN or OPENAI_API_KEY)"
            raise Problems([Finding(Severity.ERROR, path, parts.hostname, "has credentials in it", remedy)])
        tls = parts.scheme == "https"
        prefix = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return cls(parts.hostname, port or (443 if tls else 80), tls, prefix)

    @property
    def host_header(self) -> str:
        """The value of Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


@dataclass
class Answer:
    """An answer while it comes. headers: by lower-case name; complete: its whole body was read."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    complete: bool = False


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer = Answer()
        self._read: Callable[[float], bool] = self._head
        self._left = 0
        self._on_body: OnBody = lambda _data, _at: None
        self._ended: asyncio.Future[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, url: Url) -> Connection:
        """Connect; HttpError when that fails."""
        context = ssl.create_default_context() if url.tls else None
        try:
            async with asyncio.timeout(_CONNECT_S):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(cls, url.host, url.port, ssl=context)
        except TimeoutError as problem:
            raise HttpError(f"{url.host_header} takes no connection within {_CONNECT_S:.0f} s") from problem
        except (OSError, UnicodeError) as problem:
            raise HttpError(f"{url.host_header} takes no connection: {problem}") from problem
        return connection

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return not self._closed and self._transport is not None and not self._transport.is_closing()

    @property
    def status(self) -> int:
        """Status of the answer that comes or came last, 0 before its head was read."""
        return self._answer.status

    async def send(self, request: bytes, on_body: OnBody) -> Answer:
        """Send one request (head and body) and read its answer; on_body gets body bytes and when they were read.

        HttpError when the answer is not whole. Nothing is sent twice.
        """
        if self._transport is None or self._closed:
            raise HttpError("the connection is closed")
        self._answer, self._on_body, self._read = Answer(), on_body, self._head
        self._buffer.clear()
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            await self._ended
        finally:
            # Whatever stopped the wait: bytes of this answer must not be taken for the next one's.
            if not self._answer.complete or self._answer.headers.get("connection", "").lower() == "close":
                self.close()
            self._ended = None
        return self._answer

    def close(self) -> None:
        """Close at once."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        if self._ended is None or self._ended.done():
            self.close()  # nobody asked
            return
        self._buffer += data
        try:
            while self._read(at):
                pass
        except HttpError as problem:
            self._end(problem)
        except ValueError:
            self._end(HttpError("the answer is not HTTP/1.1"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._read == self._until_close and exc is None:
            self._answer.complete = True
            self._end(None)
        else:
            what = "before it answered" if not self._answer.status else "in the middle of its answer"
            self._end(HttpError(f"the server closed the connection {what}" + (f" ({exc})" if exc else "")))

    # The states: each takes what it can from the buffer, and says whether there is more to take.

    def _head(self, _at: float) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise HttpError(f"the answer's head is longer than {_MAX_HEAD} bytes")
            return False
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        protocol, status, *_ = first.split(" ")
        if not protocol.startswith("HTTP/1."):
            raise HttpError("the answer is not HTTP/1.1")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if int(status) < 200:  # 100 Continue and early hints: the answer follows
            return True
        if protocol == "HTTP/1.0":
            headers.setdefault("connection", "close")
        self._answer.status, self._answer.headers = int(status), headers
        if "chunked" in headers.get("transfer-encoding", "").lower():
            self._read = self._size
        elif "content-length" in headers:
            self._left, self._read = int(headers["content-length"]), self._length
        elif int(status) in {204, 304}:
            return self._complete()
        else:
            self._read = self._until_close
        return True

    def _size(self, _at: float) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_SIZE_LINE:
                raise HttpError("a chunk has no size")
            return False
        self._left = int(bytes(self._buffer[:end]).partition(b";")[0], 16)
        del self._buffer[: end + 2]
        self._read = self._chunk if self._left else self._trailer
        return True

    def _chunk(self, at: float) -> bool:
        if self._left:
            self._body(self._left, at)
        if self._left or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise HttpError("a chunk is longer than it says")
        del self._buffer[:2]
        self._read = self._size
        return True

    def _trailer(self, _at: float) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return False
        del self._buffer[: end + 2]
        return self._complete() if end == 0 else True

    def _length(self, at: float) -> bool:
        self._body(self._left, at)
        return False if self._left else self._complete()

    def _until_close(self, at: float) -> bool:
        self._body(len(self._buffer), at)
        return False

    def _body(self, limit: int, at: float) -> None:
        part = bytes(self._buffer[:limit])
        del self._buffer[: len(part)]
        self._left -= len(part)
        if part:
            self._on_body(part, at)

    def _complete(self) -> bool:
        self._answer.complete = True
        self._end(None)
        return False

    def _end(self, problem: HttpError | None) -> None:
        if self._ended is not None and not self._ended.done():
            if problem is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(problem)


def request_bytes(url: Url, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A whole request; path: below the address's prefix."""
    lines = [f"{method} {url.prefix}{path} HTTP/1.1", f"Host: {url.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
