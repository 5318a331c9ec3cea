"""Requests to the fake engine: read and judged as vLLM does, per version, and turned into work for the core."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandbox.engines.fake import answers
from sandbox.engines.fake.core import Work
from sandbox.engines.fake.plan import Plan
from sandbox.engines.fake.tokens import END, Tokenizer

# max_tokens of /v1/completions when a request has none.
_COMPLETION_TOKENS = 16
_THINKING_WORDS = 24
# Below this vLLM takes min_p for absent.
_MIN_P = 1e-5


class RefusedError(Exception):
    """An error response: status and message, the type as vLLM names it."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass(frozen=True)
class Ask:
    """One completion to give. work: for the core; thinking: that many first tokens of the answer are thinking."""

    chat: bool
    stream: bool
    model: str
    work: Work
    thinking: int = 0
    include_usage: bool = False
    continuous_usage: bool = False
    return_token_ids: bool = False


def read_ask(path: str, body: bytes, plan: Plan, tokenizer: Tokenizer) -> Ask:
    """A completion request. RefusedError as vLLM would refuse it."""
    try:
        given = json.loads(body)
    except ValueError as error:
        raise RefusedError(
            400, f"[{{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error: {error}'}}]"
        ) from error
    if not isinstance(given, dict):
        raise RefusedError(
            400, "[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should be a valid dictionary'}]"
        )
    chat = path.endswith("/chat/completions")
    model = given.get("model") or plan.names[0]
    if model not in plan.names:
        aliases = f" Valid aliases: {', '.join(plan.names)}" if plan.version.features.since.minor >= 32 else ""
        raise RefusedError(404, f"The model `{model}` does not exist.{aliases}", "NotFoundError", "model")
    _check_sampling(given, plan)
    prompt = _chat_prompt(given) if chat else _text_prompt(given)
    tokens = tokenizer.encode(prompt.rendered)
    limit = _limit(given, chat=chat, prompt=len(tokens), plan=plan)
    options = given.get("stream_options")
    stream = bool(given.get("stream"))
    if options is not None and not stream:
        raise RefusedError(400, "Stream options can only be defined when `stream=True`.")
    options = options if isinstance(options, dict) else {}
    forced = plan.args.enabled("enable-force-include-usage") is True
    include = bool(options.get("include_usage")) or forced
    answer, thinking = _answer(given, prompt, plan, tokenizer, limit)
    return Ask(
        chat=chat,
        stream=stream,
        model=str(model),
        work=Work(tokens, answer, limit, _drafted(given, plan)),
        thinking=thinking,
        include_usage=include,
        continuous_usage=include and (bool(options.get("continuous_usage_stats")) or forced),
        return_token_ids=bool(given.get("return_token_ids")),
    )


@dataclass(frozen=True)
class _Prompt:
    """rendered: what is tokenised; asked: the user's last words, which choose the answer; thinks: None unless said."""

    rendered: str
    asked: str
    thinks: bool | None = None


def _chat_prompt(given: Mapping[str, object]) -> _Prompt:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RefusedError(
            400, "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]", param="messages"
        )
    rendered, asked = [], ""
    for message in messages:
        role = str(message.get("role", "user")) if isinstance(message, dict) else "user"
        content = _content(message.get("content")) if isinstance(message, dict) else ""
        rendered.append(f"<|im_start|>{role}\n{content}{END}\n")
        asked = content if role == "user" else asked
    kwargs = given.get("chat_template_kwargs")
    thinks = kwargs.get("enable_thinking") if isinstance(kwargs, dict) else None
    return _Prompt("".join(rendered) + "<|im_start|>assistant\n", asked, None if thinks is None else bool(thinks))


def _content(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _text_prompt(given: Mapping[str, object]) -> _Prompt:
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise RefusedError(
            400, "[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}]", param="prompt"
        )
    return _Prompt(prompt, prompt, thinks=False)


def _check_sampling(given: Mapping[str, object], plan: Plan) -> None:
    if given.get("n") not in (None, 1):
        raise RefusedError(400, "the fake engine gives one choice: n must be 1", param="n")
    min_p = given.get("min_p")
    filtered = (isinstance(min_p, int | float) and min_p > _MIN_P) or bool(given.get("logit_bias"))
    if filtered and plan.config is not None and plan.version.features.min_p_refused:
        raise RefusedError(
            400, "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )


def _limit(given: Mapping[str, object], *, chat: bool, prompt: int, plan: Plan) -> int:
    """How many tokens may be made: judged per version (facts/vllm.md, error table)."""
    length, minor = plan.max_model_len, plan.version.features.since.minor
    if prompt >= length:
        raise RefusedError(
            400,
            f"This model's maximum context length is {length} tokens. However, your request has {prompt} input tokens. "
            "Please reduce the length of the input messages.",
            param="input_tokens",
        )
    asked = given.get("max_completion_tokens") or given.get("max_tokens")
    if given.get("max_tokens") == 0 or (asked is not None and (not isinstance(asked, int) or asked < 1)):
        raise RefusedError(
            400, f"max_tokens must be at least 1, got {given.get('max_tokens', asked)}.", param="max_tokens"
        )
    if not isinstance(asked, int):
        return length - prompt if chat else min(_COMPLETION_TOKENS, length - prompt)
    if asked > length and minor >= 32:
        raise RefusedError(
            400,
            f"max_tokens={asked} cannot be greater than max_model_len={length}. Please request fewer output tokens.",
        )
    if prompt + asked > length and minor < 20:
        raise RefusedError(
            400,
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{length} tokens and your request has {prompt} input tokens ({asked} > {length} - {prompt}).",
            param="max_tokens",
        )
    if prompt + asked > length and minor < 32:
        raise RefusedError(
            400,
            f"This model's maximum context length is {length} tokens. However, you requested {asked} output tokens and "
            f"your prompt contains {prompt} input tokens, for a total of {prompt + asked} tokens.",
        )
    return min(asked, length - prompt)


def _drafted(given: Mapping[str, object], plan: Plan) -> bool:
    """Old versions silently do not draft for a request with penalties, logprobs or min_p."""
    if not plan.version.features.penalties_stop_drafting:
        return True
    names = ("frequency_penalty", "presence_penalty", "logprobs", "min_p")
    return not any(given.get(name) for name in names) and given.get("repetition_penalty") in (None, 1, 1.0)


def _answer(
    given: Mapping[str, object], prompt: _Prompt, plan: Plan, tokenizer: Tokenizer, limit: int
) -> tuple[list[int], int]:
    """The answer's tokens with its end token, and how many of them are thinking."""
    thinking: list[int] = []
    if plan.settings.think or (plan.thinks if prompt.thinks is None else prompt.thinks):
        words = "".join(itertools.islice(answers.prose(prompt.asked + " thinking"), _THINKING_WORDS))
        thinking = tokenizer.encode(f"<think>\n{words}\n</think>\n\n")
    text = _stopped(_text(prompt.asked, plan, tokenizer), given.get("stop"))
    tokens = [*thinking, *tokenizer.encode(text)]
    least = given.get("min_tokens")
    wanted = limit if given.get("ignore_eos") else least if isinstance(least, int) else 0
    if len(tokens) < wanted:
        tokens += itertools.islice(_encoded(answers.prose(prompt.asked + " more"), tokenizer), wanted - len(tokens))
    if not given.get("ignore_eos"):
        tokens.append(tokenizer.end)
    return tokens, len(thinking)


def _text(asked: str, plan: Plan, tokenizer: Tokenizer) -> str:
    wanted = plan.settings.answer
    if isinstance(wanted, dict):
        return wanted.get("text", "")
    if wanted == "empty":
        return ""
    if wanted == "copy" and (copied := answers.copied(asked)) is not None:
        return copied
    words: Iterator[str] = answers.prose(asked)
    if wanted in ("loop", "garbage"):
        words = itertools.repeat(" again") if wanted == "loop" else answers.garbage(asked)
    return tokenizer.decode(itertools.islice(_encoded(words, tokenizer), plan.settings.answer_tokens)).lstrip()


def _stopped(text: str, stop: object) -> str:
    words = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    places = [place for word in words if word and (place := text.find(str(word))) >= 0]
    return text[: min(places)] if places else text


def _encoded(words: Iterator[str], tokenizer: Tokenizer) -> Iterator[int]:
    for word in words:
        yield from tokenizer.encode(word)
