"""Statistics of a paired comparison. Pure functions over arrays whose last axis is the case.

The unit is the case (one prompt), not the request: ten repeats of one prompt say more about that prompt and nothing
about another, so they are averaged first. Ratios are compared as logarithms: twice as fast and twice as slow are then
equally far from 1, and the mean is the geometric one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]  # it has no stubs

Array = NDArray[np.float64]

CONFIDENCE = 0.95
# Below, a t interval is wider than any effect that one looks for: with two cases its factor is 12.7, with three 4.3.
MIN_CASES = 3
# From here on the cases themselves are resampled, which needs no normal distribution; fewer repeat themselves too
# often in the resamples.
BOOTSTRAP_CASES = 20
# The ends of an interval then stand still to a hundredth of its width from one seed to another.
RESAMPLES = 4000
SEED = 20240229
Method = Literal["t interval over cases", "bootstrap over cases", "too few cases for an interval"]


@dataclass(frozen=True)
class Estimate:
    """A ratio as geometric mean over cases. low, high: its 95 % interval, None with too few cases."""

    ratio: float
    low: float | None
    high: float | None
    cases: int
    method: Method

    @property
    def direction(self) -> Literal["above 1", "below 1", "not told from 1"]:
        """On which side of 1 the whole interval lies."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return "not told from 1"
        return "above 1" if self.low > 1 else "below 1"


@dataclass(frozen=True)
class SignTest:
    """Cases above, below and at 1, and the two-sided chance of so uneven a split if neither were likelier."""

    above: int
    below: int
    ties: int
    p: float


def case_means(ratios: Mapping[str, Sequence[float]]) -> Array:
    """Each case's mean log ratio, cases in sorted order. ratios: of each pair of a case, all above 0."""
    return np.array([np.mean(np.log(ratios[case])) for case in sorted(ratios)], dtype=np.float64)


def estimate(means: Array, seed: int = SEED) -> Estimate:
    """The ratio over cases and its interval. means: shape (cases,), at least one, each case's mean log ratio."""
    cases = len(means)
    ratio = math.exp(float(means.mean()))
    if cases < MIN_CASES:
        return Estimate(ratio, None, None, cases, "too few cases for an interval")
    few = cases < BOOTSTRAP_CASES
    low, high = t_interval(means) if few else bootstrap_interval(means, seed)
    method: Method = "t interval over cases" if few else "bootstrap over cases"
    return Estimate(ratio, math.exp(float(low)), math.exp(float(high)), cases, method)


def t_interval(means: Array) -> tuple[Array, Array]:
    """Ends of the t intervals of the mean. means: shape (..., cases), at least two cases; each end: shape (...)."""
    cases = means.shape[-1]
    half = stdtrit(cases - 1, (1 + CONFIDENCE) / 2) * means.std(axis=-1, ddof=1) / math.sqrt(cases)
    centre = means.mean(axis=-1)
    return centre - half, centre + half


def bootstrap_interval(means: Array, seed: int = SEED, resamples: int = RESAMPLES) -> tuple[Array, Array]:
    """Ends of the studentised bootstrap intervals of the mean. means: shape (..., cases); each end: shape (...).

    Whole cases are drawn with replacement, and each resample is measured in its own standard errors: plain
    percentiles are too narrow for a few dozen cases (Efron and Tibshirani, An Introduction to the Bootstrap, 12.5).
    """
    cases = means.shape[-1]
    generator = np.random.default_rng(seed)
    # How often each resample has each case: sums over cases are then one product of matrices.
    counts = generator.multinomial(cases, np.full(cases, 1 / cases), size=resamples).astype(np.float64)
    centre = means.mean(axis=-1, keepdims=True)
    centred = means - centre
    shift = centred @ counts.T / cases
    variance = np.maximum(centred**2 @ counts.T / cases - shift**2, 0) * cases / (cases - 1)
    error = means.std(axis=-1, ddof=1, keepdims=True) / math.sqrt(cases)
    # A resample of one case alone, or equal cases, has no spread of its own.
    spread = np.maximum(np.sqrt(variance / cases), 1e-6 * error)
    studentised = np.divide(shift, spread, out=np.zeros_like(shift), where=spread > 0)
    tail = (1 - CONFIDENCE) / 2
    lowest, highest = np.quantile(studentised, [tail, 1 - tail], axis=-1)
    return (centre[..., 0] - highest * error[..., 0]), (centre[..., 0] - lowest * error[..., 0])


def sign_test(means: Array) -> SignTest:
    """Which way the cases point, whatever their size. means: shape (cases,); ties are left out of the test."""
    above, below = int((means > 0).sum()), int((means < 0).sum())
    told = above + below
    # Both tails of a fair coin; the halves overlap when the split is even.
    p = min(1.0, 2 * sum(math.comb(told, few) for few in range(min(above, below) + 1)) / 2**told)
    return SignTest(above, below, len(means) - above - below, p)


def noise_floor(means: Array, seed: int = SEED) -> float | None:
    """The factor (at least 1) that arms which do not differ reach: the far end of the A/A interval, None without one.

    means: shape (cases,), mean log ratios of pairs within one arm. A ratio between 1/floor and floor is no finding.
    """
    found = estimate(means, seed)
    if found.low is None or found.high is None:
        return None
    return max(found.high, 1 / found.low)


def drift_cancels(order: Sequence[Any]) -> bool:
    """Whether a linear drift over blocks leaves the comparison of both arms alone: equal mean places (ABBA, BAAB)."""
    places: dict[Any, list[int]] = {}
    for place, arm in enumerate(order):
        places.setdefault(arm, []).append(place)
    if len(places) != 2:
        return False
    one, other = places.values()
    return sum(one) * len(other) == sum(other) * len(one)
