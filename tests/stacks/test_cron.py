"""Which cron expressions are taken: those that Kubernetes takes, and that a day comes for."""

from __future__ import annotations

import pytest

from stacks.cron import SHORTHANDS, problem

TAKEN = [
    "0 * * * *",
    "*/15 * * * *",
    "  5  0-23/2 1,15 * MON-fri ",
    "59 23 31 12 6",
    "0 0 ? * ?",
    "0 9/3 * jan,Jul 0",
    "30 4 29 2 *",
    "0 0 31 2,3 *",
    # One of two days is enough.
    "0 0 31 2 1",
    *SHORTHANDS,
]


@pytest.mark.parametrize("expression", TAKEN)
def test_taken(expression: str) -> None:
    assert problem(expression) is None


SHORT = "of its kind there are only @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
REFUSED = [
    ("", "it has 0 fields, not the five minute, hour, day of the month, month, day of the week"),
    ("* * * *", "it has 4 fields, not the five minute, hour, day of the month, month, day of the week"),
    ("0 0 * * * *", "it has 6 fields, not the five minute, hour, day of the month, month, day of the week"),
    ("TZ=UTC 0 * * * *", "it has 6 fields, not the five minute, hour, day of the month, month, day of the week"),
    ("60 * * * *", "its minute is 60: outside 0 to 59"),
    ("* 24 * * *", "its hour is 24: outside 0 to 23"),
    ("* * 0 * *", "its day of the month is 0: outside 1 to 31"),
    ("* * * 13 *", "its month is 13: outside 1 to 12"),
    ("* * * * 7", "its day of the week is 7: outside 0 to 6"),
    ("* * * * monday", "its day of the week is monday: outside 0 to 6"),
    ("* jan * * *", "its hour is jan: outside 0 to 23"),
    ("30-10 * * * *", "its minute is 30-10: a range goes upwards"),
    ("*/0 * * * *", "its minute is */0: a step of 0 never ends"),
    ("*/x * * * *", "its minute is */x: not a number, a range, * or a step"),
    ("1,,2 * * * *", "its minute is 1,,2: not a number, a range, * or a step"),
    ("-1 * * * *", "its minute is -1: not a number, a range, * or a step"),
    ("1-2-3 * * * *", "its minute is 1-2-3: not a number, a range, * or a step"),
    ("5/ * * * *", "its minute is 5/: not a number, a range, * or a step"),
    ("\u0665 * * * *", "its minute is \u0665: outside 0 to 59"),
    ("0 0 30 2 *", "such a date never comes"),
    ("0 0 31 4,6,9,11 ?", "such a date never comes"),
    ("@every 1h", SHORT),
    ("@hourly ", SHORT),
    ("@Hourly", SHORT),
]


@pytest.mark.parametrize(("expression", "why"), REFUSED)
def test_refused(expression: str, why: str) -> None:
    assert problem(expression) == why
