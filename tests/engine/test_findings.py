from __future__ import annotations

import pickle

import pytest

from engine.findings import Finding, Problems, Severity, errors

LOWER = Finding(Severity.ERROR, "speculative_config.prompt_lookup_min", 8, "it must be <= 4", "lower it")
NOTE = Finding(Severity.WARNING, "args", None, "nothing to do")


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (LOWER, "error: speculative_config.prompt_lookup_min: 8: it must be <= 4; lower it"),
        (NOTE, "warning: args: nothing to do"),
        (Finding(Severity.INFO, "a", "x\n  y", "two\nlines", ""), "info: a: x y: two lines"),
        (Finding(Severity.ERROR, "a", "", "empty", "fill it"), "error: a: '': empty; fill it"),
        (Finding(Severity.ERROR, "a", "v" * 500, "long", ""), f"error: a: {'v' * 119}…: long"),
        (Finding(Severity.ERROR, "a", {"k": 1}, "a dict", ""), "error: a: {'k': 1}: a dict"),
    ],
)
def test_a_finding_is_one_line(finding: Finding, line: str) -> None:
    assert finding.line() == line
    assert str(finding) == line


def test_problems_are_one_line_each_and_survive_a_process_boundary() -> None:
    problems = Problems([LOWER, NOTE])
    assert str(problems).split("\n") == [LOWER.line(), NOTE.line()]
    again = pickle.loads(pickle.dumps(problems))
    assert again.findings == (LOWER, NOTE)
    assert str(again) == str(problems)


def test_only_errors_stop() -> None:
    assert errors([NOTE, LOWER]) == [LOWER]
