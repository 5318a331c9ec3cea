"""An engine's address as the client uses it: completions, pages, the model's name, and the wait until it answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.http1 import Connection, HttpError, Url, request_bytes
from engine.findings import Finding, Problems, Severity
from engine.redact import redact
from engine.sse import read_body

# Engines answer pages from memory, also under load.
_PAGE_S = 10.0
# Statuses of a route whose engine is not there yet.
_NOT_YET = frozenset({502, 503, 504})
_RETRY_S = 1.0
_QUOTED = 200


@dataclass(frozen=True)
class Target:
    """Where completions go. headers: sent with every call, the token among them (never shown)."""

    address: str
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def url(self) -> Url:
        """The address, read."""
        return Url.parse(self.address)

    def completion(self, prompt: str, max_tokens: int, *, thinking: bool = False, per_chunk: bool = True) -> bytes:
        """A greedy, streamed chat completion; thinking: leave the model's default instead of asking for none."""
        body: dict[str, object] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, **({"continuous_usage_stats": True} if per_chunk else {})},
        }
        if not thinking:
            # Templates that know no thinking ignore it.
            body["chat_template_kwargs"] = {"enable_thinking": False}
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", **self.headers}
        raw = json.dumps(body, ensure_ascii=False).encode()
        return request_bytes(self.url, "POST", "/v1/chat/completions", headers, raw)


async def page(target: Target, path: str) -> tuple[int, bytes]:
    """GET a page below the address; its status and body; HttpError without a whole answer."""
    connection = await Connection.open(target.url)
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(_PAGE_S):
            request = request_bytes(target.url, "GET", path, target.headers)
            answer = await connection.send(request, lambda data, _: parts.append(data))
    except TimeoutError as problem:
        raise HttpError(f"{path} does not answer within {_PAGE_S:.0f} s") from problem
    finally:
        connection.close()
    return answer.status, b"".join(parts)


async def find_model(target: Target, patience_s: float, said: Callable[[str], None] = lambda _: None) -> str:
    """The model's name, waiting for the service to come up; Problems when it does not or does not say one name."""
    body = await _answering(target, patience_s, said)
    try:
        listed = json.loads(body).get("data") or []
        names = [str(entry["id"]) for entry in listed]
        roots = [str(entry["id"]) for entry in listed if not entry.get("parent")]  # adapters have a parent
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise _problem(target, f"/v1/models is no list of models: {_short(body)}", "look at the address") from problem
    if target.model in names:
        return target.model
    if target.model:
        raise _problem(target, f"it has no model {target.model}, but {', '.join(names) or 'none'}", "give --model")
    if len(roots) != 1:
        raise _problem(target, f"it has the models {', '.join(names) or '(none)'}", "name one with --model")
    return roots[0]


async def _answering(target: Target, patience_s: float, said: Callable[[str], None]) -> bytes:
    """The body of /v1/models as soon as the service answers."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            status, body = await page(target, "/v1/models")
            if status == 200:
                return body
            why, again = f"/v1/models answers {status}: {_short(body)}", status in _NOT_YET
        except HttpError as problem:
            why, again = str(problem), True
        if not again:
            remedy = "look at the token" if status in {401, 403} else "look at the address and its prefix"
            raise _problem(target, why, remedy)
        if time.monotonic() + _RETRY_S > deadline:
            raise _problem(target, f"{why} (waited {patience_s:.0f} s)", "look at the engine, or give more --patience")
        said(f"waiting for {target.address}: {why}")
        await asyncio.sleep(_RETRY_S)


def refusal(body: bytes) -> str:
    """What an answer with an error status says, in one line."""
    try:
        errors = read_body(body).errors if body.lstrip().startswith(b"{") else ()
    except RecursionError:
        errors = ()
    return redact(errors[0] if errors else _short(body))


def _problem(target: Target, why: str, remedy: str) -> Problems:
    return Problems([Finding(Severity.ERROR, "address", target.address, redact(why), remedy)])


def _short(body: bytes) -> str:
    line = " ".join(body[: 4 * _QUOTED].decode("utf-8", "replace").split())
    return line[:_QUOTED] or "nothing"
