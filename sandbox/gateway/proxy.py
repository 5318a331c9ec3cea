"""The data plane: each request finds its route, backend and endpoint, and is passed on and back as it comes."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Mapping

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from sandbox.gateway import HEALTH_PATH
from sandbox.gateway.backends import Endpoint, endpoints, valid
from sandbox.gateway.dialects import Dialect, Refusal
from sandbox.gateway.routes import Backend, Rule, Table, table
from sandbox.gateway.snapshot import Snapshot

_log = logging.getLogger("gateway")
# RFC 9110, section 7.6.1: they belong to one connection.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_CONNECT_SECONDS = 10.0


class Proxy:
    """One gateway's data plane. hosts: names that only this process knows, as (name, port) -> (address, port)."""

    def __init__(self, dialect: Dialect, snapshot: Snapshot, hosts: Mapping[Endpoint, Endpoint]) -> None:
        self._dialect = dialect
        self._snapshot = snapshot
        self._hosts = hosts
        self._table = Table([])
        self._version = -1
        self._turns: Counter[Backend] = Counter()
        self._session: aiohttp.ClientSession | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if request.path == HEALTH_PATH:
            return web.Response(text="ok\n")
        rule = self._rules().find(request.path)
        if rule is None:
            return _refuse(self._dialect.no_route)
        backend = self._backend(rule)
        if backend is None:
            return _refuse(self._dialect.no_backend)
        endpoint = self._endpoint(backend)
        if endpoint is None:
            return _refuse(self._dialect.no_endpoint)
        seconds = self._dialect.default_seconds if rule.seconds is None else rule.seconds
        return await self._pass_on(
            request, endpoint, rule.rewritten(request.rel_url.raw_path, backend.rewrite), seconds
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _rules(self) -> Table:
        if self._version != self._snapshot.version:
            self._version = self._snapshot.version
            self._table = table(self._snapshot, self._dialect.controller)
        return self._table

    def _backend(self, rule: Rule) -> Backend | None:
        """One by weight. None: there is none, or the one that was drawn cannot be resolved (it keeps its share)."""
        choices = [backend for backend in rule.backends if backend.weight > 0]
        if not choices:
            return None
        drawn = random.choices(choices, weights=[backend.weight for backend in choices])[0]
        return drawn if valid(self._snapshot, drawn, pools=self._dialect.pools) else None

    def _endpoint(self, backend: Backend) -> Endpoint | None:
        found = endpoints(self._snapshot, backend)
        if not found:
            return None
        self._turns[backend] += 1
        return found[self._turns[backend] % len(found)]

    async def _pass_on(
        self, request: web.BaseRequest, endpoint: Endpoint, path: str, seconds: float | None
    ) -> web.StreamResponse:
        host, port = self._hosts.get(endpoint, endpoint)
        target = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
        if request.rel_url.raw_query_string:
            target += f"?{request.rel_url.raw_query_string}"
        response: web.StreamResponse | None = None
        try:
            async with (
                asyncio.timeout(seconds or None),
                self._upstream().request(
                    request.method,
                    URL(target, encoded=True),
                    headers=_request_headers(request),
                    data=request.content if request.can_read_body else None,
                    allow_redirects=False,
                ) as upstream,
            ):
                response = web.StreamResponse(status=upstream.status, reason=upstream.reason)
                response.headers.extend(_end_to_end(upstream.headers))
                await response.prepare(request)
                # As it comes: a stream's events must not wait for each other.
                async for part in upstream.content.iter_any():
                    await response.write(part)
                await response.write_eof()
        except TimeoutError:
            return self._broken(request, response, self._dialect.timed_out, "timed out")
        except aiohttp.ClientError as error:
            return self._broken(request, response, self._dialect.unreachable, f"{type(error).__name__}: {error}")
        return response

    def _broken(
        self, request: web.BaseRequest, response: web.StreamResponse | None, refusal: Refusal, why: str
    ) -> web.StreamResponse:
        """Before the head went out: the gateway's own answer. After it: the connection is cut, as a proxy does."""
        _log.warning("%s: %s %s: %s", self._dialect.cluster, request.method, request.path, why)
        if response is None:
            return _refuse(refusal)
        if request.transport is not None:
            request.transport.abort()
        return response

    def _upstream(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Compressed bodies pass as they are; a proxy of the user's must not come between.
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS),
                skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept", "Content-Type"),
            )
        return self._session


def _request_headers(request: web.BaseRequest) -> CIMultiDict[str]:
    headers = CIMultiDict(_end_to_end(request.headers))
    if request.remote:
        known = headers.get("X-Forwarded-For")
        headers["X-Forwarded-For"] = f"{known}, {request.remote}" if known else request.remote
    headers.setdefault("X-Forwarded-Proto", "http")
    headers.setdefault("X-Forwarded-Host", request.host)
    return headers


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(",")}
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in _HOP_BY_HOP and name.lower() not in named
    )


def _refuse(refusal: Refusal) -> web.Response:
    content_type, _, rest = refusal.content_type.partition("; charset=")
    return web.Response(status=refusal.status, text=refusal.body, content_type=content_type, charset=rest or None)
