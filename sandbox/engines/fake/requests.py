"""Requests to the fake engine: read and judged as vLLM does, per version, and turned into work for the core."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandbox.engines.fake import answers
from sandbox.engines.fake.core import Work
from sandbox.engines.fake.plan import Plan
from sandbox.engines.fake.refused import RefusedError, check_sampling, invalid, parameter, read_object, token_limit
from sandbox.engines.fake.tokens import END, Tokenizer

_THINKING_WORDS = 24


@dataclass(frozen=True)
class Ask:
    """One completion to give.

    work: for the core; thinking: that many first tokens of the answer are thinking; stopped_by: the stop string at
    which the answer ends.
    """

    chat: bool
    stream: bool
    model: str
    work: Work
    thinking: int = 0
    include_usage: bool = False
    continuous_usage: bool = False
    return_token_ids: bool = False
    stopped_by: str | None = None


def read_ask(path: str, body: bytes, plan: Plan, tokenizer: Tokenizer) -> Ask:
    """A completion request. RefusedError as vLLM would refuse it."""
    given = read_object(body)
    chat = path.endswith("/chat/completions")
    model = given.get("model") or plan.names[0]
    if model not in plan.names:
        aliases = f" Valid aliases: {', '.join(plan.names)}." if plan.version.features.since.minor >= 32 else ""
        raise RefusedError(404, f"The model `{model}` does not exist.{aliases}", "NotFoundError", "model")
    check_sampling(given, plan)
    prompt = _chat_prompt(given) if chat else _text_prompt(given)
    tokens = tokenizer.encode(prompt.rendered)
    limit = token_limit(given, chat=chat, prompt=len(tokens), plan=plan)
    options = given.get("stream_options")
    stream = bool(given.get("stream"))
    if options is not None and not stream:
        why = f"Stream options can only be defined when `stream=True`.{parameter(plan, 'stream_options')}"
        raise RefusedError(400, why, param="stream_options")
    options = options if isinstance(options, dict) else {}
    forced = plan.args.enabled("enable-force-include-usage") is True
    include = bool(options.get("include_usage")) or forced
    answer, thinking, stopped_by = _answer(given, prompt, plan, tokenizer, limit)
    return Ask(
        chat=chat,
        stream=stream,
        model=str(model),
        work=Work(tokens, answer, limit, _drafted(given, plan)),
        thinking=thinking,
        include_usage=include,
        continuous_usage=include and (bool(options.get("continuous_usage_stats")) or forced),
        return_token_ids=bool(given.get("return_token_ids")),
        stopped_by=stopped_by,
    )


@dataclass(frozen=True)
class _Prompt:
    """rendered: what is tokenised; asked: the user's last words, which choose the answer; thinks: None unless said;
    schema: what the answer has to be JSON of, None for free text.
    """

    rendered: str
    asked: str
    thinks: bool | None = None
    schema: Mapping[str, object] | None = None


def _chat_prompt(given: Mapping[str, object]) -> _Prompt:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        if messages == []:
            why = "Cannot apply chat template to an empty conversation. Provide at least one message."
            raise RefusedError(400, why)
        raise invalid("missing", "body.messages", "Field required")
    rendered, asked = [], ""
    for message in messages:
        role = str(message.get("role", "user")) if isinstance(message, dict) else "user"
        content = _content(message.get("content")) if isinstance(message, dict) else ""
        rendered.append(f"<|im_start|>{role}\n{content}{END}\n")
        asked = content if role == "user" else asked
    kwargs = given.get("chat_template_kwargs")
    thinks = kwargs.get("enable_thinking") if isinstance(kwargs, dict) else None
    rendered.append("<|im_start|>assistant\n")
    return _Prompt("".join(rendered), asked, None if thinks is None else bool(thinks), _schema(given))


def _schema(given: Mapping[str, object]) -> Mapping[str, object] | None:
    """The schema of response_format, as all versions take it, or of structured_outputs (from 0.12 on)."""
    for keys in (("response_format", "json_schema", "schema"), ("structured_outputs", "json")):
        found: object = given
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None


def _content(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _text_prompt(given: Mapping[str, object]) -> _Prompt:
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise invalid("missing", "body.prompt", "Field required")
    return _Prompt(prompt, prompt, thinks=False)


def _drafted(given: Mapping[str, object], plan: Plan) -> bool:
    """Old versions silently do not draft for a request with penalties, logprobs or min_p."""
    if not plan.version.features.penalties_stop_drafting:
        return True
    names = ("frequency_penalty", "presence_penalty", "logprobs", "min_p")
    return not any(given.get(name) for name in names) and given.get("repetition_penalty") in (None, 1, 1.0)


def _answer(
    given: Mapping[str, object], prompt: _Prompt, plan: Plan, tokenizer: Tokenizer, limit: int
) -> tuple[list[int], int, str | None]:
    """The answer's tokens with its end token, how many of them are thinking, and the stop string that ends it."""
    thinking: list[int] = []
    thinks = plan.settings.think or (plan.thinks if prompt.thinks is None else prompt.thinks)
    # A grammar holds from the first token on, unless a parser tells it where thinking ends.
    if thinks and (prompt.schema is None or plan.args.value("reasoning-parser") is not None):
        words = "".join(itertools.islice(answers.prose(prompt.asked + " thinking"), _THINKING_WORDS))
        thinking = tokenizer.encode(f"<think>\n{words}\n</think>\n\n")
    text, stopped_by = _stopped(_text(prompt, plan, tokenizer), given.get("stop"))
    tokens = [*thinking, *tokenizer.encode(text)]
    least = given.get("min_tokens")
    wanted = limit if given.get("ignore_eos") else least if isinstance(least, int) else 0
    if len(tokens) < wanted:
        tokens += itertools.islice(_encoded(answers.prose(prompt.asked + " more"), tokenizer), wanted - len(tokens))
    if not given.get("ignore_eos"):
        tokens.append(tokenizer.end)
    return tokens, len(thinking), stopped_by


def _text(prompt: _Prompt, plan: Plan, tokenizer: Tokenizer) -> str:
    settings, asked = plan.settings, prompt.asked
    if prompt.schema is not None and settings.guided != "ignored":
        return _guided(prompt.schema, settings.guided)
    wanted = settings.answer
    if isinstance(wanted, dict):
        return wanted.get("text", "")
    if wanted == "copy" and (copied := answers.copied(asked)) is not None:
        return copied
    if wanted == "copy" and (known := answers.known(asked)) is not None:
        wanted = settings.question
        if wanted == "known":
            return known
    if wanted == "empty":
        return ""
    words: Iterator[str] = answers.prose(asked)
    if wanted in ("loop", "garbage"):
        words = itertools.repeat(" again") if wanted == "loop" else answers.garbage(asked)
    return tokenizer.decode(itertools.islice(_encoded(words, tokenizer), settings.answer_tokens)).lstrip()


def _guided(schema: Mapping[str, object], kind: str) -> str:
    if kind == "refused":
        raise RefusedError(400, "Structured outputs are not supported by this engine.")
    if kind == "failing":
        raise RefusedError(500, "Failed to advance FSM for request.", "InternalServerError")
    text = answers.instance(schema)
    return text[: len(text) // 2] if kind == "invalid" else text


def _stopped(text: str, stop: object) -> tuple[str, str | None]:
    """The text up to the first stop string, and which one that is."""
    words = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    found = [(place, str(word)) for word in words if word and (place := text.find(str(word))) >= 0]
    if not found:
        return text, None
    place, word = min(found)
    return text[:place], word


def _encoded(words: Iterator[str], tokenizer: Tokenizer) -> Iterator[int]:
    for word in words:
        yield from tokenizer.encode(word)
