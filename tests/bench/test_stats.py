"""The statistics on data whose truth is known: 2,000 experiments at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.stats import (
    BOOTSTRAP_CASES,
    MIN_CASES,
    Array,
    Estimate,
    SignTest,
    bootstrap_interval,
    case_means,
    drift_cancels,
    estimate,
    noise_floor,
    sign_test,
    t_interval,
)

Interval = Callable[[Array], tuple[Array, Array]]
EXPERIMENTS, REPEATS = 2000, 10
# Prompts differ by tens of per cent in what they gain, repeats of one by a few.
BETWEEN, WITHIN = 0.2, 0.05


def simulated(cases: int, *, truth: float = 1.0, seed: int = 1) -> Array:
    """Mean log ratios of cases, shape (experiments, cases), around a true ratio."""
    generator = np.random.default_rng(seed)
    effects: Array = generator.normal(math.log(truth), BETWEEN, (EXPERIMENTS, cases))
    noise: Array = generator.normal(0, WITHIN, (EXPERIMENTS, cases, REPEATS)).mean(axis=-1)
    return effects + noise


@pytest.mark.parametrize(("cases", "interval"), [(9, t_interval), (3, t_interval), (30, bootstrap_interval)])
def test_a_null_comparison_covers_one_in_95_percent(cases: int, interval: Interval) -> None:
    low, high = interval(simulated(cases))
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.97


def test_intervals_over_requests_would_not_cover() -> None:
    # Why the unit is the case: the same data, each repeat taken for a case of its own.
    generator = np.random.default_rng(1)
    requests = generator.normal(0, BETWEEN, (EXPERIMENTS, 9, 1)) + generator.normal(0, WITHIN, (EXPERIMENTS, 9, 10))
    low, high = t_interval(requests.reshape(EXPERIMENTS, 90))
    assert np.mean((low <= 0) & (high >= 0)) < 0.6


@pytest.mark.parametrize(("cases", "interval"), [(9, t_interval), (30, bootstrap_interval)])
def test_a_true_factor_is_found_with_its_sign(cases: int, interval: Interval) -> None:
    low, high = interval(simulated(cases, truth=1.3))
    assert np.mean(high < 0) == 0
    assert np.mean(low > 0) > 0.9
    assert 0.93 <= np.mean((low <= math.log(1.3)) & (high >= math.log(1.3))) <= 0.97


@pytest.mark.parametrize(("order", "misled"), [("ABBA", False), ("BAAB", False), ("AB", True), ("AABB", True)])
def test_a_linear_drift_does_not_fool_a_reversed_order(order: str, misled: bool) -> None:
    # Each block is 3 % slower than the one before it; the arms do not differ.
    generator = np.random.default_rng(3)
    times = generator.normal(0, 0.01, (EXPERIMENTS, 9, len(order))) + 0.03 * np.arange(len(order))
    of_arm = {arm: times[..., [place for place, of in enumerate(order) if of == arm]].mean(axis=-1) for arm in "AB"}
    low, high = t_interval(of_arm["A"] - of_arm["B"])
    covers = np.mean((low <= 0) & (high >= 0))
    assert drift_cancels(order) is not misled
    assert covers < 0.01 if misled else 0.93 <= covers <= 0.97


def test_the_mean_is_geometric_and_its_unit_is_the_case() -> None:
    # Ten pairs of one case weigh no more than one of another.
    found = estimate(case_means({"a": [4.0] * 10, "b": [0.25], "c": [1.0]}))
    assert found.ratio == pytest.approx(1.0)
    assert (found.cases, found.method, found.direction) == (3, "t interval over cases", "not told from 1")


def test_too_few_cases_have_a_ratio_but_no_interval() -> None:
    found = estimate(case_means({"a": [2.0, 2.0], "b": [2.0]}))
    assert found == Estimate(found.ratio, None, None, 2, "too few cases for an interval")
    assert found.ratio == pytest.approx(2.0)
    assert found.direction == "not told from 1"
    assert noise_floor(np.zeros(MIN_CASES - 1)) is None


def test_many_cases_are_resampled_under_a_fixed_seed() -> None:
    means = simulated(BOOTSTRAP_CASES)[0]
    assert estimate(means).method == "bootstrap over cases"
    assert estimate(means) == estimate(means)
    assert estimate(means) != estimate(means, seed=2)


def test_equal_cases_have_an_interval_without_width() -> None:
    for cases in (MIN_CASES, BOOTSTRAP_CASES):
        found = estimate(np.full(cases, math.log(1.5)))
        assert [found.low, found.high] == pytest.approx([1.5, 1.5])
        assert found.direction == "above 1"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=MIN_CASES, max_size=40), st.floats(-1, 1))
def test_arms_swapped_or_scaled_give_the_same_answer_mirrored_or_moved(values: list[float], shift: float) -> None:
    means = np.array(values)
    ratio, low, high = ends(means)
    assert low <= ratio * (1 + 1e-9)
    assert ratio <= high * (1 + 1e-9)
    assert math.log(ends(means + shift)[1] / low) == pytest.approx(shift, abs=1e-6)
    if len(values) < BOOTSTRAP_CASES:
        assert ends(-means)[1] == pytest.approx(1 / high)


def ends(means: Array) -> tuple[float, float, float]:
    found = estimate(means)
    assert found.low is not None
    assert found.high is not None
    return found.ratio, found.low, found.high


def test_the_sign_test_counts_cases() -> None:
    assert sign_test(np.array([0.1] * 8 + [-0.1])) == SignTest(8, 1, 0, 20 / 512)
    assert sign_test(np.array([0.1, -0.1, 0.0])) == SignTest(1, 1, 1, 1.0)
    assert sign_test(np.zeros(4)).p == 1.0


def test_the_noise_floor_is_the_far_end_of_the_null_interval() -> None:
    means = np.array([0.02, -0.01, 0.03, 0.0])
    low, high = t_interval(means)
    assert noise_floor(means) == pytest.approx(max(math.exp(high), math.exp(-low)))
    assert noise_floor(-means) == pytest.approx(noise_floor(means))


@pytest.mark.parametrize(("order", "cancels"), [("ABBAABBA", True), ("ABA", True), ("A", False), ("ABC", False)])
def test_which_orders_cancel_a_drift(order: str, cancels: bool) -> None:
    assert drift_cancels(order) is cancels
