"""Two arms' requests side by side: the same case and repeat, in blocks that belong together.

A time is compared as baseline over speculative and a throughput the other way round, so a ratio above 1 is always
speculation's gain. A pair in which either answer failed, looped or was cut at max_tokens is left out and counted: a
loop is the fastest text there is, and a cut answer is not the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from bench.records import Arm, Block, Request, RunFolder
from engine.loops import find_loop

Metric = Literal["tpot", "ttft", "latency", "throughput"]
METRICS: tuple[Metric, ...] = ("tpot", "ttft", "latency", "throughput")
Reason = Literal["error", "loop", "cap", "no partner"]


@dataclass(frozen=True)
class Placed:
    """A block with its measured requests, at its place in the experiment."""

    block: Block
    run: RunFolder
    requests: tuple[Request, ...]

    @property
    def arm(self) -> Arm:
        """The arm that it belongs to."""
        return self.block.arm


@dataclass(frozen=True)
class Pair:
    """The same case and repeat in both arms."""

    baseline: Request
    speculative: Request

    def ratio(self, metric: Metric) -> float | None:
        """Speculation's gain, None when it cannot be told. Whole answers are compared only when equally long."""
        one, other = value(self.baseline, metric), value(self.speculative, metric)
        if one is None or other is None or one <= 0 or other <= 0:
            return None
        if metric in ("latency", "throughput") and _length(self.baseline) != _length(self.speculative):
            return None
        return other / one if metric == "throughput" else one / other


@dataclass(frozen=True)
class Paired:
    """Sound pairs, and what was left out: requests by arm and reason. answered: all pairs with two answers."""

    pairs: tuple[Pair, ...]
    answered: tuple[Pair, ...]
    excluded: dict[Arm, dict[Reason, int]]


def value(request: Request, metric: Metric) -> float | None:
    """TTFT, latency, and TPOT = (latency - TTFT)/(n - 1) in seconds; throughput of the request in tokens/s.

    n is the usage's completion_tokens; None when the request does not tell.
    """
    length, end, first = _length(request), request.end_s, request.ttft_s
    if metric == "ttft":
        return first
    if end is None or metric == "latency":
        return end
    if metric == "tpot":
        return (end - first) / (length - 1) if length and length > 1 and first is not None else None
    return length / end if length and end > 0 else None


def placed(runs: Sequence[RunFolder]) -> list[Placed]:
    """The blocks of all runs in the order in which they ran; no spoilt block, no warm-up request."""
    found = [
        Placed(block, run, tuple(r for r in run.measured if r.block == block.index))
        for run in runs
        for block in run.run.blocks
        if not block.problems
    ]
    # Runs of their own all begin at 0: then the wall clock has the order.
    distinct = len({place.block.order for place in found}) == len(found)
    return sorted(found, key=lambda place: (place.block.order if distinct else 0, place.block.started))


def pair_up(baseline: Sequence[Placed], speculative: Sequence[Placed], *, keep_caps: bool = False) -> Paired:
    """Pair the n-th block of one arm with the n-th of the other, and in them case and repeat.

    keep_caps: keep pairs of which both answers were cut at the same length: equal work after all.
    """
    pairs: list[Pair] = []
    answered: list[Pair] = []
    excluded: dict[Arm, Counter[Reason]] = {Arm.BASELINE: Counter(), Arm.SPECULATIVE: Counter()}
    for one, other in zip(baseline, speculative, strict=False):
        left, right = _by_key(one.requests), _by_key(other.requests)
        for missing, arm in ((left.keys() - right.keys(), Arm.BASELINE), (right.keys() - left.keys(), Arm.SPECULATIVE)):
            excluded[arm]["no partner"] += len(missing)
        for key in sorted(left.keys() & right.keys()):
            pair = Pair(left[key], right[key])
            faults = {Arm.BASELINE: fault(pair.baseline), Arm.SPECULATIVE: fault(pair.speculative)}
            if "error" not in faults.values():
                answered.append(pair)
            same = _length(pair.baseline) == _length(pair.speculative)
            if keep_caps and set(faults.values()) == {"cap"} and same:
                faults = dict.fromkeys(faults)
            for arm, reason in faults.items():
                if reason:
                    excluded[arm][reason] += 1
            if not any(faults.values()):
                pairs.append(pair)
    for arm, longer, shorter in ((Arm.BASELINE, baseline, speculative), (Arm.SPECULATIVE, speculative, baseline)):
        excluded[arm]["no partner"] += sum(len(place.requests) for place in longer[len(shorter) :])
    counts = {arm: {reason: n for reason, n in found.items() if n} for arm, found in excluded.items()}
    return Paired(tuple(pairs), tuple(answered), counts)


def fault(request: Request) -> Reason | None:
    """Why a request is not compared, None when it is sound."""
    if request.error is not None or request.status != 200 or request.usage is None:
        return "error"
    if loops(request.text):
        return "loop"
    return "cap" if request.finish_reason == "length" else None


@lru_cache(maxsize=10_000)  # repeats of a greedy answer are equal, and a search takes milliseconds
def loops(text: str) -> bool:
    """Whether a text repeats one part over and over."""
    return find_loop(text) is not None


def neighbours(places: Sequence[Placed]) -> Iterator[Pair]:
    """Pairs within one arm: each repeat of a case with the next one, in the same block."""
    for place in places:
        answers: dict[tuple[str, str], list[Request]] = {}
        for request in sorted(place.requests, key=lambda request: request.repeat):
            if fault(request) != "error":
                answers.setdefault((request.family, request.case), []).append(request)
        for repeats in answers.values():
            yield from (Pair(one, other) for one, other in pairwise(repeats))


def _by_key(requests: Sequence[Request]) -> dict[tuple[str, str, int], Request]:
    # A resumed run may have a failed request before the one that counts.
    return {(request.family, request.case, request.repeat): request for request in requests}


def _length(request: Request) -> int | None:
    return request.usage.completion_tokens if request.usage else None
