"""Two accounts of one engine's flags, held against each other flag by flag: args against args, args against the log.

What a side's format cannot carry is no difference: the `non-default args` line leaves defaults out, prints objects that
are no literals and masks secrets. The speculative config has many spellings and is compared as a whole elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from engine.arguments import EngineArgs
from engine.flags import MANY, is_boolean, read_int
from engine.redact import MASK, redact_values
from engine.speculative_flags import CONFIG, KEY_FLAGS

# Flags whose default is none in every version that was read (engine/arg_utils.py): given, they stand in the line.
_ALWAYS_SHOWN = frozenset({"default-chat-template-kwargs", "max-model-len", "revision", "served-model-name"})
_KWARGS = "default-chat-template-kwargs"
# What a reference to an unknown variable looks like after expansion.
_REFERENCE = "$("

# A flag's values as written; "true" or "false" for one without a value.
_Values = tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """One flag (without dashes) and what each of two sides says of it, redacted; "" where it has none."""

    flag: str
    first: str
    second: str


def args_differences(first: EngineArgs, second: EngineArgs, *, added: Collection[str] = ()) -> list[Difference]:
    """Where two command lines say different things; added: flags that only the second may have."""
    left, right = _given(first), _given(second)
    found = []
    for flag in [*left, *(name for name in right if name not in left)]:
        if flag in added and flag not in left:
            continue
        if flag in left and flag in right and _same(left[flag], right[flag]):
            continue
        found.append(Difference(flag, _shown(flag, left.get(flag)), _shown(flag, right.get(flag))))
    return found


def log_differences(args: EngineArgs, line: Mapping[str, object]) -> list[Difference]:
    """Where the `non-default args` line (engine/log.py) says otherwise than the args of the container."""
    return list(_log_differences(args, line))


def _log_differences(args: EngineArgs, line: Mapping[str, object]) -> Iterator[Difference]:
    for flag, values in _given(args).items():
        if any(_REFERENCE in value for value in values):
            continue
        name = flag.replace("-", "_")
        if name not in line:
            if flag in _ALWAYS_SHOWN:
                yield Difference(flag, _shown(flag, values), "")
        elif _agrees(flag, values, line[name]) is False:
            yield Difference(flag, _shown(flag, values), str(redact_values({flag: line[name]})[flag]))


def _given(args: EngineArgs) -> dict[str, _Values]:
    found: dict[str, _Values] = {}
    for name, values in args.flags.items():
        base = name.partition(".")[0]
        if base in (CONFIG, _KWARGS) or name in KEY_FLAGS:
            continue
        flag = name.removeprefix("no-") if is_boolean(name) else name
        given = tuple(value for value in values if value is not None)
        if not given:
            given = ("false" if name.startswith("no-") else "true",)
        found.pop(flag, None)  # the last spelling counts, as in vLLM
        found[flag] = given if name in MANY else given[-1:]
    if args.chat_template_kwargs:
        found[_KWARGS] = (json.dumps(args.chat_template_kwargs),)
    if args.model:
        found["model"] = (args.model,)
    return found


def _same(first: _Values, second: _Values) -> bool:
    return len(first) == len(second) and all(
        a == b or _value(a) == _value(b) for a, b in zip(first, second, strict=True)
    )


def _value(text: str) -> object:
    """The value of a flag: a number in any of its spellings, JSON, or the text itself."""
    number = read_int(text)
    if number is not None:
        return number
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _agrees(flag: str, values: _Values, shown: object) -> bool | None:
    """Whether the line's value is that of the args; None when the two cannot be compared."""
    text = values[-1]
    if MASK in str(shown) or (flag == "model" and str(shown).startswith("/") and not text.startswith("/")):
        return None  # a secret, or the folder in which vLLM found the model of an offline hub
    if isinstance(shown, list):
        return list(values) == shown if all(isinstance(item, str) for item in shown) else None
    if isinstance(shown, str):
        return text == shown
    value: object = -1 if flag == "max-model-len" and text.lower() == "auto" else _value(text)
    kind = _kind(shown)
    return value == shown if kind and kind == _kind(value) else None


def _kind(value: object) -> str:
    """What may be compared with each other; "" for what is no value of a flag."""
    if isinstance(value, bool):
        return "switch"
    return "number" if isinstance(value, int | float) else "object" if isinstance(value, Mapping) else ""


def _shown(flag: str, values: _Values | None) -> str:
    if values is None:
        return ""
    # A secret is known by its flag's name, whatever characters it has.
    return str(redact_values({flag: " ".join(values)})[flag])
