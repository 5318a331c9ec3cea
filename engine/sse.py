"""One answer of an OpenAI-compatible server, put together from its event stream or from its plain JSON body.

A chunk is not a token: with speculation one carries up to k+1 of them. Token counts therefore come from `usage` only,
and are None when the server does not send it. All times are the caller's, in seconds of the caller's clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.events import SseEvent, SseParser

__all__ = ["Completion", "CompletionStream", "SseEvent", "SseParser", "ToolCall", "Usage", "read_body"]

DONE = "[DONE]"
# An error message is quoted up to here: it may carry a whole prompt.
_QUOTED = 300


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class ToolCall:
    """One tool call; arguments: JSON text as the model wrote it."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Completion:
    """What came back for one request (choice 0).

    text, reasoning: the answer and the thinking before it; usage: None when the server did not send it; chunks: events
    that had a choice; first_byte, first_token, last_choice: stamps of the first byte, the first text (of either kind)
    and the last event with a choice; token_stamps: of each event with text; token_counts: the completion tokens so far
    at each of them, by the event's own usage or by token ids, None when it has neither; done: the stream ended with
    [DONE], or the body was whole; errors: what the server or the stream reported; speculation: the server's own numbers
    for this request (`metrics.speculative_decoding`), if it sends them.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    chunks: int = 0
    first_byte: float | None = None
    first_token: float | None = None
    last_choice: float | None = None
    token_stamps: tuple[float, ...] = ()
    token_counts: tuple[int | None, ...] = ()
    token_ids: tuple[int, ...] = ()
    prompt_token_ids: tuple[int, ...] = ()
    speculation: Mapping[str, object] | None = None
    done: bool = False
    errors: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why the answer cannot be counted, None when it can."""
        if self.errors:
            return self.errors[0]
        if not self.chunks:
            return "the answer is empty: no event had a choice"
        if not self.done:
            return "the answer was cut off before its end"
        if self.usage is None:
            return "the server sent no usage, so its tokens are unknown"
        return None


@dataclass
class CompletionStream:
    """Puts a streamed answer together; feed it every chunk of the body with the time it was read."""

    _parser: SseParser = field(default_factory=SseParser)
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _tools: dict[int, list[str]] = field(default_factory=dict)
    _stamps: list[float] = field(default_factory=list)
    _counts: list[int | None] = field(default_factory=list)
    _ids: list[int] = field(default_factory=list)
    _prompt_ids: list[int] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)
    _finish_reason: str | None = None
    _usage: Usage | None = None
    _model: str | None = None
    _speculation: Mapping[str, object] | None = None
    _chunks: int = 0
    _first_byte: float | None = None
    _last_choice: float | None = None
    _done: bool = False

    def feed(self, chunk: bytes, at: float) -> None:
        """Take the next bytes of the body, read at this time."""
        if chunk and self._first_byte is None:
            self._first_byte = at
        for event in self._parser.feed(chunk):
            self._event(event, at)

    def take_body(self, body: bytes) -> None:
        """Take the whole body of an answer that was not streamed."""
        self._event(SseEvent(body.decode("utf-8", "replace")), None)
        self._done = not self._errors

    def finish(self, at: float | None = None, *, cut: bool = False) -> Completion:
        """The body has ended; at: when (only needed if the last event is not closed by a blank line).

        cut: it broke off, so what stands of an unfinished event is no event.
        """
        for event in [] if cut else self._parser.finish():
            self._event(event, at)
        return Completion(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(ToolCall(name, arguments) for _, (name, arguments) in sorted(self._tools.items())),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            chunks=self._chunks,
            first_byte=self._first_byte,
            first_token=self._stamps[0] if self._stamps else None,
            last_choice=self._last_choice,
            token_stamps=tuple(self._stamps),
            token_counts=tuple(self._counts),
            token_ids=tuple(self._ids),
            prompt_token_ids=tuple(self._prompt_ids),
            speculation=self._speculation,
            done=self._done,
            errors=tuple(self._errors),
        )

    def _event(self, event: SseEvent, at: float | None) -> None:
        if self._done:
            return
        if event.data.strip() == DONE:
            self._done = True
            return
        try:
            payload = json.loads(event.data)
        except (ValueError, RecursionError):
            self._errors.append(f"this is not JSON: {_short(event.data)}")
            return
        if not isinstance(payload, dict):
            self._errors.append(f"this is not a JSON object: {_short(event.data)}")
            return
        self._payload(payload, at)

    def _payload(self, payload: Mapping[str, object], at: float | None) -> None:
        if ("error" in payload or payload.get("object") == "error") and (error := _error(payload)):
            self._errors.append(error)
            return
        usage = _usage(payload.get("usage"))
        self._usage = usage or self._usage
        self._model = _text(payload.get("model")) or self._model
        if "metrics" in payload:
            metrics = _mapping(payload["metrics"])
            self._speculation = _mapping(metrics.get("speculative_decoding")) or self._speculation
        if "prompt_token_ids" in payload:
            self._prompt_ids += _ids(payload["prompt_token_ids"])
        choices = payload.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._choice(choice, usage, at)

    def _choice(self, choice: Mapping[str, object], usage: Usage | None, at: float | None) -> None:
        self._chunks += 1
        self._last_choice = at
        self._finish_reason = _text(choice.get("finish_reason")) or self._finish_reason
        ids = _ids(choice.get("token_ids"))
        self._ids += ids
        self._prompt_ids += _ids(choice.get("prompt_token_ids"))
        delta = _mapping(choice.get("delta")) or _mapping(choice.get("message"))
        text = _text(delta.get("content")) or _text(choice.get("text"))
        # Some versions send the thinking under both names.
        reasoning = _text(delta.get("reasoning")) or _text(delta.get("reasoning_content"))
        called = "tool_calls" in delta and self._tool_calls(delta["tool_calls"])
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if (text or reasoning or called) and at is not None:
            self._stamps.append(at)
            self._counts.append(usage.completion_tokens if usage else len(self._ids) if ids else None)

    def _tool_calls(self, calls: object) -> bool:
        some = False
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            if not isinstance(call, dict):
                continue
            index = call.get("index", place)
            function = _mapping(call.get("function"))
            name, arguments = _text(function.get("name")), _text(function.get("arguments"))
            entry = self._tools.setdefault(index if isinstance(index, int) else place, ["", ""])
            entry[0] += name
            entry[1] += arguments
            some = some or bool(name or arguments)
        return some


def read_body(body: bytes) -> Completion:
    """An answer that was not streamed: one JSON object."""
    stream = CompletionStream()
    stream.take_body(body)
    return stream.finish()


def _error(payload: Mapping[str, object]) -> str | None:
    error = payload.get("error")
    if isinstance(error, Mapping):
        kind, code = _text(error.get("type")), error.get("code")
        message = _text(error.get("message")) or "no message"
        return _short(
            " ".join(str(part) for part in (code, kind) if part) + f": {message}" if kind or code else message
        )
    if error is not None:
        return _short(str(error))
    if payload.get("object") == "error":
        return _short(_text(payload.get("message")) or "no message")
    return None


def _usage(value: object) -> Usage | None:
    usage = _mapping(value)
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is int and type(completion) is int and prompt >= 0 and completion >= 0:
        return Usage(prompt, completion)
    return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """The value when it is text; half of a surrogate pair, which JSON can spell and UTF-8 cannot, is U+FFFD."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def _ids(value: object) -> list[int]:
    return [item for item in value if type(item) is int] if isinstance(value, list) else []


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTED else line[:_QUOTED] + "…"
