"""The fake engine's API: vLLM's routes, their authorisation, and the faults that a client meets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from sandbox.engines.fake.core import Core
from sandbox.engines.fake.counters import Counters
from sandbox.engines.fake.http import CutError, Request, Response
from sandbox.engines.fake.page import CONTENT_TYPE, page
from sandbox.engines.fake.plan import Plan
from sandbox.engines.fake.refused import RefusedError, check_media_type, read_object
from sandbox.engines.fake.requests import Ask, read_ask
from sandbox.engines.fake.responses import KEEP_ALIVE, Answer
from sandbox.engines.fake.settings import changed_settings
from sandbox.engines.fake.tokens import Tokenizer

ROUTES: dict[str, tuple[str, ...]] = {
    "/health": ("GET",),
    "/version": ("GET",),
    "/metrics": ("GET",),
    "/load": ("GET",),
    "/ping": ("GET", "POST"),
    "/tokenize": ("POST",),
    "/detokenize": ("POST",),
    "/v1/models": ("GET",),
    "/v1/chat/completions": ("POST",),
    "/v1/completions": ("POST",),
}
# Not vLLM's: FAKE_ENGINE anew, for an engine that serves.
SETTINGS_PATH = "/fake/settings"
_WRONG_VERSION = "0.10.0"


class Api:
    """One engine's API. dead: called when the engine core dies."""

    def __init__(self, plan: Plan, core: Core, dead: Callable[[], None]) -> None:
        self._plan, self._core, self._dead = plan, core, dead
        self._tokenizer = Tokenizer()
        self._completions = 0
        self.alive = True
        self._shown = core.counters
        if plan.args.enabled("disable-log-stats"):
            # The page is there, and nothing on it moves but what the web server counts.
            self._shown = Counters(core.counters.k)
            self._shown.http = core.counters.http

    async def handle(self, request: Request) -> Response:
        """Answer one request; never raises for what a client sent."""
        if fixed := self._fixed(request):
            return fixed
        methods = ROUTES.get(request.path)
        if methods is None:
            return Response.of({"detail": "Not Found"}, 404)
        if self._guarded(request):
            return Response.of({"error": "Unauthorized"}, 401)
        if request.method not in (*methods, "HEAD"):
            return Response.of({"detail": "Method Not Allowed"}, 405)
        try:
            if request.method == "POST" and request.path != "/ping":
                check_media_type(request.headers.get("content-type", ""))
            return await self._route(request.path)(request)
        except RefusedError as refused:
            return Response.of(refused.body, refused.status)

    def _fixed(self, request: Request) -> Response | None:
        """What is not vLLM's."""
        if (request.method, request.path) == ("PUT", SETTINGS_PATH):
            return self._change(request.body)
        status = self._plan.settings.status.get(request.path)
        if status is None:
            return None
        return Response.of({"detail": "Not Found"} if status == 404 else {"error": "fault"}, status)

    def _change(self, body: bytes) -> Response:
        try:
            settings = changed_settings(self._plan.settings, body.decode("utf-8", "replace"))
        except ValueError as error:
            return Response.of({"error": str(error)}, 400)
        self._plan = self._plan.changed(settings)
        self._core.change(self._plan)
        self._completions = 0
        return Response(204)

    def _guarded(self, request: Request) -> bool:
        keys = self._plan.api_keys
        given = request.headers.get("authorization", "")
        return bool(keys) and request.path.startswith("/v1") and given not in [f"Bearer {key}" for key in keys]

    def _route(self, path: str) -> Callable[[Request], Awaitable[Response]]:
        routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/health": self._health,
            "/ping": self._health,
            "/version": self._version,
            "/metrics": self._metrics,
            "/load": self._load,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/v1/models": self._models,
        }
        return routes.get(path, self._complete)

    async def _health(self, _request: Request) -> Response:
        return Response(200 if self.alive else 503, b"")

    async def _version(self, _request: Request) -> Response:
        lies = self._plan.settings.lie == "version"
        return Response.of({"version": _WRONG_VERSION if lies else self._plan.version_text})

    async def _metrics(self, _request: Request) -> Response:
        return Response(200, page(self._plan, self._shown).encode(), CONTENT_TYPE)

    async def _load(self, _request: Request) -> Response:
        return Response.of({"server_load": 0})

    async def _models(self, _request: Request) -> Response:
        created = int(self._core.counters.created)
        common = {"object": "model", "created": created, "owned_by": "vllm", "root": self._plan.model, "parent": None}
        data = [{"id": name, **common, "max_model_len": self._plan.max_model_len} for name in self._plan.names]
        return Response.of({"object": "list", "data": data})

    async def _tokenize(self, request: Request) -> Response:
        given = read_object(request.body)
        prompt = given.get("prompt")
        if not isinstance(prompt, str):
            # The same text as a completion would see.
            body = json.dumps({"messages": given.get("messages"), "max_tokens": 1}).encode()
            tokens = list(read_ask("/v1/chat/completions", body, self._plan, self._tokenizer).work.prompt)
        else:
            tokens = self._tokenizer.encode(prompt)
        pieces = [self._tokenizer.piece(token) for token in tokens] if given.get("return_token_strs") else None
        count = {"count": len(tokens), "max_model_len": self._plan.max_model_len}
        return Response.of({**count, "tokens": tokens, "token_strs": pieces})

    async def _detokenize(self, request: Request) -> Response:
        tokens = read_object(request.body).get("tokens")
        try:
            return Response.of({"prompt": self._tokenizer.decode(tokens if isinstance(tokens, list) else [])})
        except KeyError as error:
            raise RefusedError(400, f"token {error} is out of vocabulary") from error

    async def _complete(self, request: Request) -> Response:
        ask = read_ask(request.path, request.body, self._plan, self._tokenizer)
        limit = self._plan.settings.crash_after
        if limit is not None and self._completions >= limit:
            self.alive = False
            self._dead()
            message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
            raise RefusedError(500, message, "InternalServerError")
        self._completions += 1
        answer = Answer(ask, self._plan, self._tokenizer)
        if ask.stream:
            return Response(200, content_type="text/event-stream; charset=utf-8", stream=self._stream(ask, answer))
        async for steps in self._core.run(ask.work):
            answer.steps += steps
        return Response.of(answer.whole())

    async def _stream(self, ask: Ask, answer: Answer) -> AsyncIterator[bytes]:
        settings = self._plan.settings
        total = min(len(ask.work.answer), ask.work.max_tokens)
        opened = not ask.chat
        async for steps in self._core.run(ask.work):
            if not opened:
                opened = True
                yield answer.opening()
            for event in answer.events(steps):
                yield event
            if settings.keep_alive_comments:
                yield KEEP_ALIVE
            if settings.cut_stream and answer.made * 2 >= total:
                await asyncio.sleep(0)
                raise CutError
        for event in answer.closing():
            yield event
