"""Cron expressions as Kubernetes reads them (robfig/cron's standard parser, which its controller uses).

Only what that takes is taken: five fields, names of months and days, `@hourly` and its like. `@every` and time zones
inside the expression are left out: the first drifts, the second is refused by the API server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHORTHANDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# The longest February is that of a leap year.
_DAYS_OF_MONTH = dict(zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))
_PART = re.compile(r"(?P<all>[*?])|(?P<low>\w+)(?:-(?P<high>\w+))?")


@dataclass(frozen=True)
class _Field:
    """One of the five. names: stand for the numbers from `least` on."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    # Unlike elsewhere, 7 is not Sunday.
    _Field("day of the week", 0, 6, _DAYS),
)


def problem(expression: str) -> str | None:
    """Why Kubernetes would refuse an expression, or never run it; None when it is fine."""
    if expression.startswith("@"):
        return None if expression in SHORTHANDS else f"of its kind there are only {', '.join(SHORTHANDS)}"
    words = expression.split()
    if len(words) != len(_FIELDS):
        return f"it has {len(words)} fields, not the five minute, hour, day of the month, month, day of the week"
    values: list[set[int]] = []
    for field, word in zip(_FIELDS, words, strict=True):
        found = _values(field, word)
        if isinstance(found, str):
            return f"its {field.name} is {word}: {found}"
        values.append(found)
    _, _, days, months, _ = values
    if words[4] in ("*", "?") and all(min(days) > _DAYS_OF_MONTH[month] for month in months):
        return "such a date never comes"
    return None


def _values(field: _Field, word: str) -> set[int] | str:
    """The numbers that a field means, or what is wrong with it."""
    values: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        match = _PART.fullmatch(span)
        if match is None or (slash and not step.isdecimal()):
            return "not a number, a range, * or a step"
        if slash and int(step) == 0:
            return "a step of 0 never ends"
        low = field.least if match["all"] else _number(field, match["low"])
        # A step without a range goes on to the end.
        high = field.most if match["all"] or (slash and not match["high"]) else _number(field, match["high"] or span)
        if low is None or high is None or not field.least <= low <= field.most or high > field.most:
            return f"outside {field.least} to {field.most}"
        if low > high:
            return "a range goes upwards"
        values |= set(range(low, high + 1, int(step) if slash else 1))
    return values


def _number(field: _Field, text: str) -> int | None:
    if text.lower() in field.names:
        return field.least + field.names.index(text.lower())
    return int(text) if text.isascii() and text.isdecimal() else None
