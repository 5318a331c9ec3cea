"""What n-gram speculation would have drafted over finished texts, and how much of it the model would have accepted.

The rules are those of vLLM's proposers (v1/spec_decode/ngram_proposer.py; V2: v1/worker/gpu/spec_decode/ngram): the
longest n-gram of the window that stands earlier in the request, "leftmost" (V1) or "rightmost" (V2), drafts what
follows it. A draft is accepted as far as it equals the answer that is already known, as greedy decoding does.

All requests lie in one array. Earlier copies are found for every place at once by numbering the n-grams of each size
(equal ones have equal numbers, and a number belongs to one request); only the walk from step to step is a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from engine.speculative import SpeculativeConfig
from engine.versions import EngineFeatures

Ids = NDArray[np.int64]
Match = Literal["leftmost", "rightmost"]
# As max_model_len when none is given: no text is that long.
NO_LIMIT = 2**40
# Columns of what the walk counts for a request; the rest are accepted drafts by position.
STEPS, DRAFTS, DRAFT_TOKENS, ACCEPTED, POSITIONS = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Tokens:
    """Requests end to end. ids: all tokens; starts, answers, ends: places of each prompt, its answer, and past it."""

    ids: Ids
    starts: Ids
    answers: Ids
    ends: Ids
    max_tokens: Ids

    @classmethod
    def of(
        cls,
        requests: Sequence[tuple[Sequence[int], Sequence[int]]],
        max_tokens: Sequence[int | None] | None = None,
    ) -> Tokens:
        """Lay out prompts and answers. max_tokens: the limit of each request, None when not known."""
        lengths = np.array([(len(prompt), len(answer)) for prompt, answer in requests], dtype=np.int64).reshape(-1, 2)
        ends = np.cumsum(lengths.sum(axis=1))
        starts = ends - lengths.sum(axis=1)
        ids = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
        for start, (prompt, answer) in zip(starts, requests, strict=True):
            middle = start + len(prompt)
            ids[start:middle] = prompt
            ids[middle : middle + len(answer)] = answer
        limits = [NO_LIMIT if limit is None else limit for limit in max_tokens or [None] * len(requests)]
        return cls(ids, starts, starts + lengths[:, 0], ends, np.array(limits, dtype=np.int64))


@dataclass(frozen=True)
class Rules:
    """How the engine drafts.

    k: most drafts a step; max_model_len: None for no limit; zero_near_limit: drafts of token 0 near it instead of
    none (from 0.20); within_max_tokens: no draft beyond max_tokens (before 0.12). V2 pads every draft to k.
    """

    k: int
    match: Match = "leftmost"
    max_model_len: int | None = None
    zero_near_limit: bool = False
    within_max_tokens: bool = False

    @classmethod
    def of_engine(
        cls, config: SpeculativeConfig, features: EngineFeatures, match: Match, max_model_len: int | None
    ) -> Rules:
        """The rules of one version of vLLM."""
        return cls(
            config.num_speculative_tokens,
            match,
            max_model_len,
            zero_near_limit=features.near_limit == "zero tokens",
            within_max_tokens=features.since.minor < 12,
        )


class Copies:
    """Where each text goes on after an earlier copy of its last n tokens, for all n from 1 to `highest`."""

    def __init__(self, tokens: Tokens, highest: int) -> None:
        self.tokens = tokens
        self._after: dict[Match, list[Ids]] = {"leftmost": [], "rightmost": []}
        size = len(tokens.ids)
        owner = np.repeat(np.arange(len(tokens.starts)), tokens.ends - tokens.starts)
        room = np.repeat(tokens.ends, tokens.ends - tokens.starts) - np.arange(size)
        # Small numbers for the ids, so that a pair of numbers fits one integer.
        kinds, ids = np.unique(tokens.ids, return_inverse=True)
        numbers = owner
        matches: tuple[Match, Match] = ("leftmost", "rightmost")
        for n in range(1, highest + 1):
            last = np.append(ids[n - 1 :], np.zeros(min(n - 1, size), dtype=np.int64))
            numbers, first, before = _numbered(numbers * max(1, len(kinds)) + last)
            # Grams that would run into the next request get a number that nothing else has.
            numbers = np.where(room >= n, numbers, size + np.arange(size))
            for match, found in zip(matches, (first, before), strict=True):
                after = np.full(size + 1, -1, dtype=np.int64)
                earlier = np.flatnonzero((found < np.arange(size)) & (found >= 0) & (room >= n))
                after[earlier + n] = found[earlier] + n
                self._after[match].append(after)

    def window(self, lowest: int, highest: int, match: Match) -> Ids:
        """For each length of the whole array: where to draft from after it, -1 without a match. The longest wins."""
        after = self._after[match][lowest - 1]
        for longer in self._after[match][lowest:highest]:
            after = np.where(longer >= 0, longer, after)
        return after

    def replay(self, lowest: int, highest: int, rules: Rules) -> Ids:
        """Counts of each request, shape (requests, POSITIONS + k), with a window of `lowest` to `highest` tokens."""
        tokens = self.tokens
        counts = np.zeros((len(tokens.starts), POSITIONS + rules.k), dtype=np.int64)
        _walk(
            tokens.ids, tokens.starts, tokens.answers, tokens.ends, tokens.max_tokens,
            self.window(lowest, highest, rules.match), rules.k, rules.max_model_len or NO_LIMIT,
            rules.match == "rightmost", rules.zero_near_limit, rules.within_max_tokens, counts,
        )  # fmt: skip
        return counts


def _numbered(keys: Ids) -> tuple[Ids, Ids, Ids]:
    """Numbers from 0 on for equal keys, and for each place the first one of its key and the one before (-1: none)."""
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(keys), dtype=bool)
    new[1:] = keys[order[1:]] != keys[order[:-1]]
    group = np.cumsum(new) - 1
    numbers, first, before = (np.empty(len(keys), dtype=np.int64) for _ in range(3))
    numbers[order] = group
    first[order] = order[new][group]
    before[order] = np.where(new, -1, np.roll(order, 1))
    return numbers, first, before


@njit(cache=True)
def _walk(  # noqa: PLR0917  # compiled: only positions
    ids: Ids, starts: Ids, answers: Ids, ends: Ids, limits: Ids, after: Ids, k: int, longest: int,
    padded: bool, zeros: bool, clipped: bool, counts: Ids,  # noqa: FBT001
) -> None:  # fmt: skip
    for request in range(len(starts)):
        start, end = starts[request], ends[request]
        # The first token of an answer comes with the prompt's own step, which never has drafts.
        place = answers[request] + 1
        scheduled = answers[request] - start
        while place < end:
            length = place - start
            begin = after[place]
            known = 0  # drafts that are copied from the text
            width = 0  # drafts in all
            near = False
            if padded:
                known = min(k, place - begin) if begin >= 0 else 0
                width = k
            elif scheduled + k > longest:
                near = zeros
                width = k if zeros else 0
            elif begin >= 0:
                known = min(k, place - begin, longest - length)
                width = known
            width = min(width, max(0, longest - 1 - length))
            if clipped:
                width = min(width, max(0, limits[request] - (place - answers[request]) - 1))
            accepted = 0
            while accepted < width and place + accepted < end:
                draft = 0 if near else ids[begin + accepted] if accepted < known else ids[place - 1]
                if draft != ids[place + accepted]:
                    break
                accepted += 1
            counts[request, STEPS] += 1
            if width > 0:
                counts[request, DRAFTS] += 1
                counts[request, DRAFT_TOKENS] += width
                counts[request, ACCEPTED] += accepted
                for position in range(accepted):
                    counts[request, POSITIONS + position] += 1
            scheduled = length + width
            place += accepted + 1
