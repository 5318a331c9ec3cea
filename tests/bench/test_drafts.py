"""The replay against the plainest reading of the proposer's rules, and against the drafting of the fake engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.drafts import ACCEPTED, DRAFT_TOKENS, DRAFTS, POSITIONS, STEPS, Copies, Rules, Tokens
from engine.speculative import SpeculativeConfig
from engine.versions import TABLE, EngineFeatures, Runner
from sandbox.engines.fake import drafting


@dataclass
class Counted:
    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0


def propose(context: list[int], lowest: int, highest: int, k: int, *, rightmost: bool) -> list[int]:
    """Try every size from long to short, and every place: quadratic, and obviously right."""
    length = len(context)
    for n in range(min(highest, length - 1), lowest - 1, -1):
        places = [p for p in range(length - n) if context[p : p + n] == context[length - n :]]
        if places:
            begin = (places[-1] if rightmost else places[0]) + n
            return context[begin : begin + k]
    return []


def reference(prompt: list[int], answer: list[int], lowest: int, highest: int, k: int, *, rightmost: bool) -> Counted:
    counted, made = Counted(), 1
    while made < len(answer):
        context = prompt + answer[:made]
        draft = propose(context, lowest, highest, k, rightmost=rightmost)
        if rightmost:  # the V2 runner always drafts k tokens
            draft += [context[-1]] * (k - len(draft))
        accepted = 0
        while accepted < len(draft) and answer[made + accepted :][:1] == [draft[accepted]]:
            accepted += 1
        counted.steps += 1
        counted.drafts += bool(draft)
        counted.draft_tokens += len(draft)
        counted.accepted += accepted
        made += accepted + 1
    return counted


def replayed(copies: Copies, lowest: int, highest: int, rules: Rules) -> list[Counted]:
    return [Counted(*map(int, row[:POSITIONS])) for row in copies.replay(lowest, highest, rules)]


# Few kinds of tokens, so that copies of all sizes, overlapping ones too, are common.
TEXT = st.lists(st.integers(0, 3), max_size=20)
REQUESTS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3)
WINDOW = st.tuples(st.integers(1, 5), st.integers(0, 3)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@settings(max_examples=60, deadline=None)
@given(REQUESTS, WINDOW, st.integers(1, 7), st.booleans())
def test_drafts_and_acceptance_are_those_of_the_rules(
    requests: list[tuple[list[int], list[int]]], window: tuple[int, int], k: int, rightmost: bool
) -> None:
    lowest, highest = window
    rules = Rules(k, "rightmost" if rightmost else "leftmost")
    expected = [reference(prompt, answer, lowest, highest, k, rightmost=rightmost) for prompt, answer in requests]
    assert replayed(Copies(Tokens.of(requests), highest), lowest, highest, rules) == expected


@settings(max_examples=60, deadline=None)
@given(REQUESTS, WINDOW, st.integers(1, 7), st.sampled_from(["V1", "V2"]), st.sampled_from(TABLE), st.integers(8, 70))
def test_near_the_limits_it_counts_what_the_fake_engine_counts(
    requests: list[tuple[list[int], list[int]]],
    window: tuple[int, int],
    k: int,
    runner: Runner,
    features: EngineFeatures,
    limit: int,
) -> None:
    config = SpeculativeConfig("ngram", k, *window)
    # An engine takes no prompt, and makes no answer, that exceeds the limit. 0 is no token of a text.
    fitting = [([t + 1 for t in p], [t + 1 for t in a]) for p, a in requests if len(p) + len(a) <= limit]
    fake = drafting.Rules(config, runner, features, limit)
    made = [list(drafting.steps(p, a, len(a), fake))[1:] for p, a in fitting]
    expected = [
        Counted(len(s), sum(x.drafted > 0 for x in s), sum(x.drafted for x in s), sum(x.accepted for x in s))
        for s in made
    ]
    rules = Rules.of_engine(config, features, "rightmost" if runner == "V2" else "leftmost", limit)
    tokens = Tokens.of(fitting, [len(answer) for _, answer in fitting])
    assert replayed(Copies(tokens, window[1]), *window, rules) == expected


def test_the_first_copy_or_the_last_one_is_followed() -> None:
    # "1 2" goes on with 3 at first and with 4 later; the answer goes on with 4.
    tokens = Tokens.of([([1, 2, 3, 9, 1, 2, 4, 8], [7, 1, 2, 4, 8, 5])])
    copies = Copies(tokens, 2)
    assert replayed(copies, 2, 2, Rules(2)) == [Counted(4, 2, 4, 1)]
    assert replayed(copies, 2, 2, Rules(2, "rightmost")) == [Counted(3, 3, 6, 2)]


def test_acceptance_by_position_falls_and_adds_up() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8] * 2
    counts = Copies(Tokens.of([(text, [*text, 3, 9, 4])]), 3).replay(2, 3, Rules(4))[0]
    positions = list(counts[POSITIONS:])
    assert positions == sorted(positions, reverse=True)
    assert sum(positions) == counts[ACCEPTED] > 0
    assert counts[STEPS] + counts[ACCEPTED] == len(text) + 2
    assert counts[DRAFTS] <= counts[DRAFT_TOKENS] <= 4 * counts[DRAFTS]


@pytest.mark.parametrize("requests", [[], [([], [])], [([1], [])], [([], [1])], [([], [1, 1])]])
def test_texts_with_nothing_to_draft(requests: list[tuple[list[int], list[int]]]) -> None:
    counts = Copies(Tokens.of(requests), 4).replay(2, 4, Rules(5))
    assert counts.shape == (len(requests), POSITIONS + 5)
    assert np.all(counts[:, DRAFTS] == 0)
