"""What the fake engine's API refuses, in vLLM's words: bodies, sampling parameters and lengths, judged per version."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sandbox.engines.fake.plan import Plan

# max_tokens of /v1/completions when a request has none.
_COMPLETION_TOKENS = 16
# Below this vLLM takes min_p for absent.
_MIN_P = 1e-5


class RefusedError(Exception):
    """An error response: status and message, the type as vLLM names it."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


def read_object(body: bytes) -> dict[str, object]:
    """A body that has to be a JSON object."""
    try:
        given = json.loads(body)
    except ValueError as error:
        raise invalid("json_invalid", "body.1", f"JSON decode error: {error}") from error
    if not isinstance(given, dict):
        raise invalid("model_attributes_type", "body", "Input should be a valid dictionary or object")
    return given


def check_media_type(content_type: str) -> None:
    """Only JSON is taken."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        why = "Unsupported Media Type: Only 'application/json' is allowed"
        raise RefusedError(400, f"1 validation error:\n  {why}", "Bad Request")


def invalid(kind: str, place: str, message: str) -> RefusedError:
    text = f"1 validation error:\n  {{'type': {kind!r}, 'loc': {place!r}, 'msg': {message!r}}}"
    return RefusedError(400, text, "Bad Request", place)


def parameter(plan: Plan, name: str, value: object = None) -> str:
    """What recent versions add to a message."""
    if plan.version.features.since.minor < 32:
        return ""
    return f" (parameter={name})" if value is None else f" (parameter={name}, value={value})"


def check_sampling(given: Mapping[str, object], plan: Plan) -> None:
    """Sampling parameters that speculation refuses, and what is not played."""
    if given.get("n") not in (None, 1):
        raise RefusedError(400, "the fake engine gives one choice: n must be 1", param="n")
    min_p = given.get("min_p")
    filtered = (isinstance(min_p, int | float) and min_p > _MIN_P) or bool(given.get("logit_bias"))
    if filtered and plan.config is not None and plan.version.features.min_p_refused:
        raise RefusedError(
            400, "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )


def token_limit(given: Mapping[str, object], *, chat: bool, prompt: int, plan: Plan) -> int:
    """How many tokens may be made: each version judges and words it in its own way."""
    length, minor = plan.max_model_len, plan.version.features.since.minor
    if prompt >= length:
        why = (
            f"This model's maximum context length is {length} tokens. However, your prompt contains at least "
            f"{length + 1} input tokens, which exceeds this limit even without any output tokens. Please reduce the "
            f"length of the input prompt.{parameter(plan, 'input_tokens', length + 1)}"
        )
        raise RefusedError(400, why, param="input_tokens")
    asked = given.get("max_completion_tokens", given.get("max_tokens"))
    if asked is not None and (not isinstance(asked, int) or asked < 1):
        why = f"max_tokens must be at least 1, got {asked}.{parameter(plan, 'max_tokens', asked)}"
        raise RefusedError(400, why, param="max_tokens")
    if asked is None:
        return length - prompt if chat else min(_COMPLETION_TOKENS, length - prompt)
    if asked > length and minor >= 32:
        why = f"max_tokens={asked} cannot be greater than max_model_len={length}. Please request fewer output tokens."
        raise RefusedError(400, why + parameter(plan, "max_tokens", asked), param="max_tokens")
    if prompt + asked > length and minor < 20:
        why = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{length} tokens and your request has {prompt} input tokens ({asked} > {length} - {prompt})."
        )
        raise RefusedError(400, why, param="max_tokens")
    if prompt + asked > length and minor < 32:
        why = (
            f"This model's maximum context length is {length} tokens. However, you requested {asked} output tokens and "
            f"your prompt contains {prompt} input tokens, for a total of {prompt + asked} tokens."
        )
        raise RefusedError(400, why)
    return min(asked, length - prompt)
