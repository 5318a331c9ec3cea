"""The speculative config from all its spellings on a command line, and what makes them contradict each other.

`--speculative-config JSON`, the same as `-sc`, dotted (`--speculative-config.method ngram`), and `--spec-method`,
`--spec-model`, `--spec-tokens`. Two of them for one key are an error: which one vLLM keeps depends on their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from engine.findings import Finding, Severity
from engine.flags import Token, read_int

CONFIG = "speculative-config"
# Flag -> key of the speculative config (from 0.23 on).
KEY_FLAGS = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
# vLLM reads both as no config.
_NULL = ("", "None")


def collect(found: Sequence[Token]) -> tuple[dict[str, object] | None, bool, list[Finding]]:
    """The config as given (None: none, or contradictory), whether speculation is asked for, and the problems."""
    whole = [token for token in found if token.name == CONFIG and not token.keys]
    dotted = [token for token in found if token.name == CONFIG and token.keys]
    by_key = [token for token in found if token.name in KEY_FLAGS]
    problems: list[Finding] = []
    path = f"args.--{CONFIG}"
    one = f"keep one --{CONFIG}=JSON"
    if len(whole) > 1:
        values = " and ".join(" ".join(token.values) for token in whole)
        problems.append(_error(path, values, f"it is given {len(whole)} times; vLLM would keep only the last", one))
    if whole and dotted:
        why = f"{dotted[0].spelled} is given too; vLLM would keep only the dotted keys and drop the JSON"
        problems.append(_error(path, " ".join(whole[0].values), why, one))
    config: dict[str, object] | None = None
    for token in whole[:1]:
        config, trouble = _json_object(token)
        problems += trouble
    if dotted:
        config = {}
        problems += merge_dotted(config, dotted)
    for place, token in enumerate(by_key):
        if any(token.name == earlier.name for earlier in by_key[:place]):
            why = "it is given twice; vLLM would keep only the last"
            problems.append(_error(f"args.{token.spelled}", " ".join(token.values), why, "keep one of them"))
            continue
        problems += _merge_key_flag(token, config)
        config = {**(config or {}), KEY_FLAGS[token.name]: _key_value(token)}
    declares = config is not None or bool(problems)
    return (None if problems else config), declares, problems


def _json_object(token: Token) -> tuple[dict[str, object] | None, list[Finding]]:
    path = f"args.{token.spelled}"
    if not token.values:
        return None, [_error(path, None, "its value is missing", "give the config as JSON")]
    text = token.values[0]
    if text in _NULL:
        return None, []
    repeated: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in items]
        repeated.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(items)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        remedy = "give a JSON object with double quotes"
        if text[:1] in "'\"" and text[-1:] == text[:1]:
            remedy = "leave the outer quotes out: no shell reads these args"
        return None, [_error(path, text, f"this is not JSON ({error})", remedy)]
    if value is not None and not isinstance(value, dict):
        return None, [_error(path, text, "this is not a JSON object", 'give one, such as {"method": "ngram", …}')]
    if repeated:
        return value, [_error(path, text, f"the key {repeated[0]} is given twice", "keep one of them")]
    return value, []


def merge_dotted(config: dict[str, object], dotted: Sequence[Token]) -> list[Finding]:
    """Set the keys that dotted flags name, as vLLM does; what is wrong with them."""
    problems: list[Finding] = []
    bases = {token.spelled.partition(".")[0].replace("_", "-") for token in dotted}
    if len(bases) > 1:
        why = f"its keys are given under {' and '.join(sorted(bases))}; vLLM would keep only one of the two groups"
        problems.append(_error(f"args.--{CONFIG}", None, why, f"use --{CONFIG} for all of them"))
    for token in dotted:
        path = f"args.{token.spelled}"
        if not token.values:
            problems.append(_error(path, None, "its value is missing", "give one"))
            continue
        target = config
        for key in token.keys[:-1]:
            inner = target.setdefault(key, {})
            if not isinstance(inner, dict):
                inner = target[key] = {}
            target = inner
        last = token.keys[-1]
        value = _dotted_value(token)
        before = target.get(last)
        if isinstance(before, list) and isinstance(value, list):
            value = before + value
        elif last in target:
            problems.append(_error(path, token.values[0], "this key is given twice", "keep one of them"))
        target[last] = value
    return problems


def _dotted_value(token: Token) -> object:
    text = token.values[0]
    if token.as_list:
        return text.split(",")
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        number = read_int(text)
        return text if number is None else number
    return value


def _merge_key_flag(token: Token, config: dict[str, object] | None) -> list[Finding]:
    key = KEY_FLAGS[token.name]
    path = f"args.{token.spelled}"
    if not token.values or token.values[0] == "":
        return [_error(path, None, "its value is missing", "give one")]
    if config is not None and key in config:
        return [
            _error(
                path,
                token.values[0],
                f"the speculative config already says {key}={config[key]!r}; vLLM refuses both",
                "keep one of them",
            )
        ]
    return []


def _key_value(token: Token) -> object:
    text = token.values[0] if token.values else ""
    number = read_int(text) if token.name == "spec-tokens" else None
    return text if number is None else number


def _error(path: str, value: object, why: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, path, value, why, remedy)
