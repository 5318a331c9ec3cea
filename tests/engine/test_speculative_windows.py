from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speculative import resolve
from engine.versions import EngineVersion
from tests.engine.samples import FEW
from tests.engine.test_speculative import V11, V23, V33, check, ngram


def test_e01_a_missing_minimum_is_said_with_what_vllm_would_use() -> None:
    assert check(ngram(prompt_lookup_min=None)) == [
        "warning: speculative_config.prompt_lookup_min: it is missing; vLLM would use min=4 and max=4, so only 4-token "
        "matches draft; give both, such as 2 and 4"
    ]


def test_e02_a_minimum_above_the_maximum_is_refused() -> None:
    assert check(ngram(prompt_lookup_min=8)) == [
        "error: speculative_config.prompt_lookup_min: 8: it must be <= prompt_lookup_max=4; vLLM would not start; swap "
        "the two, or lower it"
    ]


def test_e03_neither_bound_means_five_and_is_said() -> None:
    assert check(ngram(prompt_lookup_min=None, prompt_lookup_max=None)) == [
        "warning: speculative_config.prompt_lookup_min: it and prompt_lookup_max are missing; vLLM would use min=5 and "
        "max=5, so only 5-token matches draft; give both, such as 2 and 4"
    ]


@pytest.mark.parametrize(
    ("upper", "allowed", "said"),
    [
        (16, False, []),
        (
            17,
            False,
            [
                "warning: speculative_config.prompt_lookup_max: 17: a window wider than 16 tokens costs CPU time in "
                "every step (vLLM issue 16883); use 2 to 8"
            ],
        ),
        (
            500,
            False,
            [
                "error: speculative_config.prompt_lookup_max: 500: a window wider than 64 tokens costs CPU time in "
                "every step (vLLM issue 16883); use 2 to 8, or allow it explicitly"
            ],
        ),
        (
            500,
            True,
            [
                "warning: speculative_config.prompt_lookup_max: 500: a window wider than 16 tokens costs CPU time in "
                "every step (vLLM issue 16883); use 2 to 8"
            ],
        ),
    ],
)
def test_e05_a_wide_window_is_warned_of_and_a_very_wide_one_needs_an_override(
    upper: int, allowed: bool, said: list[str]
) -> None:
    assert check(ngram(prompt_lookup_max=upper, prompt_lookup_min=10), allow_wide_window=allowed) == said


@FEW
@given(
    st.one_of(st.none(), st.integers(-2, 70)),
    st.one_of(st.none(), st.integers(-2, 70)),
    st.integers(-1, 130),
    st.sampled_from([V11, V23, V33]),
)
def test_a_config_without_errors_is_one_that_resolves(
    lower: int | None, upper: int | None, k: int, version: EngineVersion
) -> None:
    raw = ngram(prompt_lookup_min=lower, prompt_lookup_max=upper, num_speculative_tokens=k)
    clean = not [line for line in check(raw, version, allow_wide_window=True) if line.startswith("error")]
    effective = resolve(raw)
    assert clean == (effective is not None and k <= 128)
    if effective:
        assert effective.lookup_min is not None
        assert effective.lookup_max is not None
        assert 1 <= effective.lookup_min <= effective.lookup_max
