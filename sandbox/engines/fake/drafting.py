"""N-gram drafting over one request's tokens, step by step, as vLLM does it: leftmost match (V1) or rightmost (V2).

The "model" is the answer that is already known: a draft is accepted as far as it equals what comes next.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.speculative import SpeculativeConfig
from engine.versions import EngineFeatures, Runner


@dataclass(frozen=True)
class Step:
    """One engine step of a request: the tokens it gave, the drafts it verified and how many of them were right.

    accepted counts before the end of the request cuts tokens off, as vLLM counts.
    """

    tokens: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Rules:
    """How one engine drafts. config: None: not at all; max_model_len: tokens; acceptance: chance of a right draft."""

    config: SpeculativeConfig | None
    runner: Runner
    features: EngineFeatures
    max_model_len: int
    acceptance: float = 1.0


class Ngrams:
    """Where each n-gram of a growing text stood first, and where it stood before its last occurrence."""

    def __init__(self, lowest: int, highest: int) -> None:
        self._sizes = range(highest, lowest - 1, -1)
        self._tokens: list[int] = []
        self._first: dict[tuple[int, ...], int] = {}
        self._last: dict[tuple[int, ...], int] = {}
        # For the text's present suffix of each size: its previous start, None when it is new.
        self._before: dict[int, int | None] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._tokens.append(token)
            length = len(self._tokens)
            for size in self._sizes:
                if size > length:
                    continue
                gram = tuple(self._tokens[length - size :])
                start = length - size
                self._before[size] = self._last.get(gram)
                self._first.setdefault(gram, start)
                self._last[gram] = start

    def match(self, *, rightmost: bool) -> int | None:
        """Where the text after the longest earlier copy of its suffix begins, None without one."""
        length = len(self._tokens)
        for size in self._sizes:
            if size >= length or (before := self._before.get(size)) is None:
                continue
            start = before if rightmost else self._first[tuple(self._tokens[length - size :])]
            return start + size
        return None

    def after(self, begin: int, count: int) -> list[int]:
        return self._tokens[begin : begin + count]

    def __len__(self) -> int:
        return len(self._tokens)


def steps(
    prompt: Sequence[int], answer: Sequence[int], max_tokens: int, rules: Rules, *, drafts: bool = True
) -> Iterator[Step]:
    """The steps of one request until its answer or max_tokens ends.

    drafts: False for a request that the version does not draft for.
    """
    if not answer or max_tokens < 1:
        return
    yield Step((answer[0],))
    if rules.config is None or not drafts:
        yield from (Step((token,)) for token in answer[1:max_tokens])
        return
    config = rules.config
    grams = Ngrams(config.lookup_min or 1, config.lookup_max or 1)
    grams.extend(prompt)
    grams.extend(answer[:1])
    chance = random.Random(len(prompt))
    made, scheduled = 1, len(prompt)
    while made < min(len(answer), max_tokens):
        draft = _draft(grams, scheduled, rules, config)
        draft = draft[: max(0, rules.max_model_len - 1 - len(grams))]
        if rules.features.since.minor < 12:
            draft = draft[: max(0, max_tokens - made - 1)]
        scheduled = len(grams) + len(draft)
        accepted = 0
        for guess, truth in zip(draft, answer[made:], strict=False):
            if guess != truth or (rules.acceptance < 1 and chance.random() >= rules.acceptance):
                break
            accepted += 1
        tokens = tuple(answer[made : made + accepted + 1][: max_tokens - made])
        yield Step(tokens, len(draft), accepted)
        grams.extend(tokens)
        made += len(tokens)


def _draft(grams: Ngrams, scheduled: int, rules: Rules, config: SpeculativeConfig) -> list[int]:
    k, length = config.num_speculative_tokens, len(grams)
    if rules.runner == "V2":
        begin = grams.match(rightmost=True)
        found = grams.after(begin, k) if begin is not None else []
        return found + grams.after(length - 1, 1) * (k - len(found))
    if scheduled + k > rules.max_model_len:
        return [] if rules.features.near_limit == "no drafts" else [0] * k
    begin = grams.match(rightmost=False)
    return grams.after(begin, min(k, rules.max_model_len - length)) if begin is not None else []
