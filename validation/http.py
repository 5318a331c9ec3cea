"""HTTP to engines and to the service address, with the standard library: plain GETs and one streamed POST."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from engine.sse import Completion, CompletionStream, read_body

# Engines answer /metrics and /version from memory, also under load.
_GET_TIMEOUT_S = 10.0
# Between two reads of a stream: a busy engine may queue a request before its first token.
_READ_TIMEOUT_S = 120.0
# One page of metrics of a real engine has 50 kB.
_MAX_PAGE = 8 << 20
# One error body is quoted up to here.
_QUOTED = 300
_READ_BYTES = 1 << 16
# Statuses of a gateway whose backend is not there yet.
_NOT_YET = frozenset({502, 503, 504})
# Never through a proxy: all that is spoken to is inside the cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class HttpError(Exception):
    """No usable answer. status: the HTTP status, 0 when there was none; retry: the route may not have come up yet."""

    def __init__(self, message: str, status: int = 0, *, retry: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retry = retry


@dataclass(frozen=True)
class Streamed:
    """A streamed completion, and how long it took in seconds from the request to the end."""

    completion: Completion
    seconds: float


def get(url: str) -> str:
    """The body of a page; HttpError in one line otherwise."""
    try:
        with _OPENER.open(url, timeout=_GET_TIMEOUT_S) as response:
            return bytes(response.read(_MAX_PAGE)).decode("utf-8", "replace")
    except urllib.error.HTTPError as problem:
        raise _refused(url, problem) from problem
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise _no_answer(url, problem) from problem


def post_completion(url: str, body: Mapping[str, object], api_key: str = "") -> Streamed:
    """Send a chat completion and read its answer to the end; HttpError when there is none with status 200."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    started = time.monotonic()
    try:
        request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers, method="POST")
        with _OPENER.open(request, timeout=_READ_TIMEOUT_S) as response:
            completion = _read(response)
    except urllib.error.HTTPError as problem:
        raise _refused(url, problem) from problem
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise _no_answer(url, problem) from problem
    return Streamed(completion, time.monotonic() - started)


def _read(response: http.client.HTTPResponse) -> Completion:
    if "event-stream" not in response.headers.get("Content-Type", ""):
        return read_body(response.read(_MAX_PAGE))
    stream = CompletionStream()
    while chunk := response.read1(_READ_BYTES):
        stream.feed(chunk, time.monotonic())
    return stream.finish(time.monotonic())


def _refused(url: str, problem: urllib.error.HTTPError) -> HttpError:
    try:
        body = " ".join(problem.read(_QUOTED).decode("utf-8", "replace").split())
    except (OSError, http.client.HTTPException):
        body = ""
    said = f": {body}" if body else ""
    # By the Gateway API a route whose Service is not there yet answers 500; an engine's own is JSON.
    retry = problem.code in _NOT_YET or (problem.code == http.client.INTERNAL_SERVER_ERROR and body[:1] != "{")
    return HttpError(f"{url} answers {problem.code} {problem.reason}{said}", problem.code, retry=retry)


def _no_answer(url: str, problem: Exception) -> HttpError:
    reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
    if isinstance(reason, TimeoutError):
        return HttpError(f"{url} did not answer in time")
    # Refused, reset, an unknown name: all are seen while a route or a load balancer comes up.
    retry = isinstance(reason, OSError)
    return HttpError(f"{url} does not answer: {reason}", retry=retry)
