"""The proposer against a plain re-statement of vLLM's two algorithms, and the steps against their arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speculative import SpeculativeConfig
from engine.versions import Runner, Version, features_of
from sandbox.engines.fake.drafting import Rules, Step, steps
from tests.sandbox.engines.reference import replay

tokens = st.lists(st.integers(1, 4), min_size=1, max_size=40)
windows = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted)
counts = st.integers(1, 6)
limits = st.integers(20, 90)


def rules(
    window: list[int], k: int, limit: int = 1000, runner: Runner = "V1", minor: int = 23, acceptance: float = 1.0
) -> Rules:
    config = SpeculativeConfig("ngram", k, window[0], window[1])
    return Rules(config, runner, features_of(Version(0, minor)), limit, acceptance)


@given(tokens, tokens, windows, counts, limits, st.sampled_from(["V1", "V2"]), st.sampled_from([11, 18, 23, 32]))
def test_every_step_is_that_of_the_replay(
    prompt: list[int], answer: list[int], window: list[int], k: int, limit: int, runner: Runner, minor: int
) -> None:
    made = rules(window, k, limit, runner, minor)
    for max_tokens in (len(answer), len(answer) // 2 + 1):
        found = list(steps(prompt, answer, max_tokens, made))
        assert [(step.drafted, step.accepted) for step in found if step.drafted] == replay(
            prompt, answer, made, max_tokens
        )
        assert [token for step in found for token in step.tokens] == answer[:max_tokens]


@given(tokens, tokens, windows, counts, st.floats(0, 1))
def test_a_lower_acceptance_never_changes_the_answer(
    prompt: list[int], answer: list[int], window: list[int], k: int, acceptance: float
) -> None:
    found = list(steps(prompt, answer, len(answer), rules(window, k, acceptance=acceptance)))
    assert [token for step in found for token in step.tokens] == answer
    assert all(step.accepted <= step.drafted <= k for step in found)
    if acceptance == 0:
        assert not any(step.accepted for step in found)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # "b c" was seen before "a": the leftmost "a" is followed by b, c, a.
        (rules([1, 2], 3), [Step((1,)), Step((2, 3, 1, 9), 3, 3)]),
        # Without speculation, one token a step.
        (
            Rules(None, "V1", features_of(Version(0, 23)), 100),
            [Step((1,)), Step((2,)), Step((3,)), Step((1,)), Step((9,))],
        ),
        # V2 drafts k in every step: two found tokens and one filler here.
        (rules([1, 2], 3, runner="V2", minor=32), [Step((1,)), Step((2, 3, 1, 9), 3, 3)]),
    ],
)
def test_steps_by_example(made: Rules, expected: list[Step]) -> None:
    assert list(steps([1, 2, 3], [1, 2, 3, 1, 9], 10, made)) == expected


def test_no_step_without_an_answer_or_without_room() -> None:
    assert list(steps([1], [], 5, rules([1, 2], 3))) == []
    assert list(steps([1], [1, 2], 0, rules([1, 2], 3))) == []
