"""What a version of vLLM refuses before it starts, in its own words (read in its sources, or seen on 0.32.0).

Only rules that are facts of the version table. A flag that the table does not know is taken to exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from engine.arguments import EngineArgs
from engine.flags import Token, is_boolean, read_int, tokens
from engine.models import ModelFacts
from engine.names import FLAGS, METHODS, NEEDS_MODEL, NGRAM_METHODS, SPECULATIVE_KEYS, Presence, presence
from engine.rules import ngram_runner, runner_refuses_ngram
from engine.speculative import effective_method, resolve
from engine.speculative_flags import KEY_FLAGS
from engine.versions import EngineVersion, Version
from sandbox.engines.fake.exits import Exit, field_error, unrecognized, value_error

_CONFIG = "SpeculativeConfig"
_JSON_FLAGS = ("speculative-config", "default-chat-template-kwargs")
_NUMBERS = ("port", "max-num-seqs", "max-num-batched-tokens", "tensor-parallel-size", "pipeline-parallel-size")
_COUNTS = ("num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")
_LONG_ALLOWED = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def refuse(
    argv: Sequence[str], args: EngineArgs, version: EngineVersion, env: Mapping[str, str], facts: ModelFacts | None
) -> Exit | None:
    """The first refusal in the order in which vLLM comes to them, None when it starts."""
    return next(_refusals(argv, args, version, env, facts), None)


def as_read(raw: Mapping[str, object], version: EngineVersion) -> Mapping[str, object]:
    """The speculative config with its keys as this version reads them."""
    if version.features.hyphenated_keys != "rewritten":
        return raw
    return {key.replace("-", "_"): value for key, value in raw.items()}


def _refusals(
    argv: Sequence[str], args: EngineArgs, version: EngineVersion, env: Mapping[str, str], facts: ModelFacts | None
) -> Iterator[Exit]:
    found = list(tokens(list(argv)))
    yield from _parser(found, version)
    yield from _environment(env)
    yield from _model(args, env, facts)
    yield from _exclusive(args, found)
    if args.speculative is not None:
        raw = as_read(args.speculative, version)
        yield from _speculative(raw, version)
        yield from _combinations(args, raw, version, env)
    mode = args.value("per-request-spec-decode-metrics")
    if args.speculative is None and mode not in (None, "none"):
        why = (
            "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via --speculative-config)."
        )
        yield value_error("VllmConfig", why)


def _parser(found: Sequence[Token], version: EngineVersion) -> Iterator[Exit]:
    """What argparse refuses, exit code 2."""
    unknown = [token for token in found if _spelled(token) in FLAGS and not _known(_spelled(token), version)]
    extra = [token.spelled for token in found if not token.name][1:]
    if unknown or extra:
        yield unrecognized(" ".join([*(_written(token) for token in unknown), *extra]))
    for token in found:
        value = token.values[-1] if token.values else None
        if token.attached and is_boolean(token.name):
            flag = token.name.removeprefix("no-")
            yield Exit(f"argument --{flag}/--no-{flag}: ignored explicit argument {value!r}", "parser", 2)
        elif token.name in _JSON_FLAGS and not token.keys and value is not None and not _is_json(value):
            why = f"Value {value} cannot be converted to <function loads at 0x7fee6fde93a0>."
            yield Exit(f"argument --{token.name}: {why}", "parser", 2)
        elif token.name in _NUMBERS and value is not None and read_int(value) is None:
            yield Exit(f"argument --{token.name}: invalid int value: {value!r}", "parser", 2)
        elif token.name == "max-model-len" and value is not None and value != "auto" and read_int(value) is None:
            yield Exit(f"argument --max-model-len: invalid human_readable_int_or_auto value: {value!r}", "parser", 2)


def _spelled(token: Token) -> str:
    return token.spelled.lstrip("-").partition(".")[0].replace("_", "-")


def _known(flag: str, version: EngineVersion) -> bool:
    return FLAGS[flag].at(version.effective) is not Presence.ABSENT


def _written(token: Token) -> str:
    if not token.values:
        return token.spelled
    return f"{token.spelled}{'=' if token.attached else ' '}{' '.join(token.values)}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return text in ("", "None")
    return True


def _environment(env: Mapping[str, str]) -> Iterator[Exit]:
    if "://" in (port := env.get("VLLM_PORT", "")):
        yield Exit(
            f"ValueError: VLLM_PORT '{port}' appears to be a URI. This may be caused by a Kubernetes service discovery "
            "issue,check the warning in: https://docs.vllm.ai/en/stable/serving/env_vars.html"
        )


def _model(args: EngineArgs, env: Mapping[str, str], facts: ModelFacts | None) -> Iterator[Exit]:
    length = args.max_model_len
    if facts and length and length > facts.max_position_embeddings and env.get(_LONG_ALLOWED) != "1":
        limit = f"max_position_embeddings={float(facts.max_position_embeddings)}"
        yield value_error(
            "ModelConfig",
            f"User-specified max_model_len ({length}) is greater than the derived max_model_len ({limit} or "
            "model_max_length=None in model's config.json). To allow overriding this maximum, set the env var "
            f"{_LONG_ALLOWED}=1.",
        )
    if args.number("max-num-seqs") == 0:
        yield field_error(
            "SchedulerConfig", "max_num_seqs", "Input should be greater than or equal to 1", "greater_than_equal", 0
        )


def _exclusive(args: EngineArgs, found: Sequence[Token]) -> Iterator[Exit]:
    """--spec-tokens beside the same key in --speculative-config."""
    whole = next((token.values[-1] for token in found if token.name == "speculative-config" and token.values), "")
    for flag, key in KEY_FLAGS.items():
        if flag in args.flags and f'"{key}"' in whole:
            yield Exit(f"ValueError: --{flag} and --speculative-config['{key}'] are mutually exclusive")


def _speculative(raw: Mapping[str, object], version: EngineVersion) -> Iterator[Exit]:
    if version.features.unknown_keys == "refused":
        yield from _keys(raw, version)
    method = raw.get("method")
    if method is not None and presence(METHODS, str(method), version.effective) is Presence.ABSENT:
        known = [repr(name) for name in METHODS if METHODS[name].at(version.effective) is Presence.PRESENT]
        choices = f"Input should be {', '.join(known[:-1])} or {known[-1]}"
        yield field_error(_CONFIG, "method", choices, "literal_error", method)
    for key in _COUNTS:
        yield from _count(key, raw.get(key))
    found = effective_method(raw)
    if found is None or (found in NEEDS_MODEL and raw.get("model") is None):
        yield value_error(_CONFIG, "num_speculative_tokens was provided but without speculative model.")
    if found in NGRAM_METHODS and raw.get("num_speculative_tokens") is None:
        why = "num_speculative_tokens must be provided with speculative model unless the draft model config contains an"
        yield value_error(_CONFIG, f"{why} n_predict parameter.")
    if found == "draft_model" and version.features.draft_model is False:
        why = "Speculative decoding with draft model is not supported yet. Please consider using other speculative"
        yield Exit(f"NotImplementedError: {why} decoding methods such as ngram, medusa, eagle, or mtp.")
    lower, upper = raw.get("prompt_lookup_min"), raw.get("prompt_lookup_max")
    if found in NGRAM_METHODS and isinstance(lower, int) and isinstance(upper, int) and lower > upper:
        yield value_error(_CONFIG, f"prompt_lookup_min={lower} must be <= prompt_lookup_max={upper}")


def _keys(raw: Mapping[str, object], version: EngineVersion) -> Iterator[Exit]:
    for name, value in raw.items():
        if name == "tensor_parallel_size":
            why = "'tensor_parallel_size' is not a valid argument in the speculative_config."
            yield value_error(_CONFIG, f"{why} Please pass 'draft_tensor_parallel_size' instead.")
        elif presence(SPECULATIVE_KEYS, name, version.effective) is Presence.ABSENT:
            yield field_error(_CONFIG, name, "Unexpected keyword argument", "unexpected_keyword_argument", value)


def _count(key: str, value: object) -> Iterator[Exit]:
    """pydantic's lax integers: "5", 5.0 and true pass."""
    if value is None:
        return
    if isinstance(value, float) and not value.is_integer():
        why = "Input should be a valid integer, got a number with a fractional part"
        yield field_error(_CONFIG, key, why, "int_from_float", value)
        return
    try:
        number = int(value) if isinstance(value, int | float | str) else None
    except ValueError:
        number = None
    if number is None:
        kind, why = (
            ("int_parsing", ", unable to parse string as an integer") if isinstance(value, str) else ("int_type", "")
        )
        yield field_error(_CONFIG, key, f"Input should be a valid integer{why}", kind, value)
    elif number < 1:
        kind, bound = (
            ("greater_than", "0") if key == "num_speculative_tokens" else ("greater_than_equal", "or equal to 1")
        )
        text = "greater than 0" if bound == "0" else "greater than or equal to 1"
        yield field_error(_CONFIG, key, f"Input should be {text}", kind, value)


def _combinations(
    args: EngineArgs, raw: Mapping[str, object], version: EngineVersion, env: Mapping[str, str]
) -> Iterator[Exit]:
    features = version.features
    if version.cpu and features.cpu_speculates is False:
        yield Exit("AssertionError: spec decode is not supported.", "core")
    method = effective_method(raw)
    config = resolve(raw)
    if method in NGRAM_METHODS and runner_refuses_ngram(version, {**env}):
        recent = features.since >= Version(0, 29)
        what = f"speculative method '{method}'" if recent else "ngram/ngram_gpu speculative decoding"
        yield value_error("VllmConfig", f"Model Runner V2 does not yet support: {what}")
    on_v2 = method in NGRAM_METHODS and features.async_ngram_on_v2 and ngram_runner(version, {**env}) == "V2"
    if args.enabled("async-scheduling") and config and method not in features.async_methods and not on_v2:
        yield value_error("VllmConfig", features.async_refusal)
