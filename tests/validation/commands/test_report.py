"""A verdict as a page: what it says, how a witness's answer is coloured, and evidence that would like to be HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from tests.validation.test_verdict import CANNOT_TELL, NUMBERS, verdict
from validation.commands.report import verdict_page
from validation.verdict import Outcome, Reading, Verdict, Witness


def read(given: Verdict, *readings: Reading) -> tuple[Witness, ...]:
    """The witnesses with other readings, in order."""
    return tuple(
        replace(witness, reading=reading, says=reading.says, why="not seen" if reading is Reading.UNKNOWN else "")
        for witness, reading in zip(given.witnesses, readings, strict=True)
    )


def words(document: str) -> list[str]:
    """The text of a page, a line for each piece, without the style sheet."""
    body = re.sub(r"(?s)<style>.*?</style>", "", document)
    return [text for line in re.split(r"<[^>]+>", body) if (text := unescape(line).strip())]


def marks(document: str) -> list[tuple[str, str]]:
    """(colour, word) of what stands out, in order."""
    return [(tone, unescape(word)) for tone, word in re.findall(r'<span class="mark (\w+)">(.*?)</span>', document)]


def test_the_page_of_a_speculating_engine() -> None:
    found = words(verdict_page(verdict(notes=("the log was kept earlier",))))
    assert found == [
        "speculating: validation of 2026-01-01T00:00:00Z",
        "Is it really speculating?",
        "OK: speculating",
        "declared: speculating",
        "Speculation works: all agree.",
        "Note: the log was kept earlier",
        "Witnesses",
        *[
            line
            for name in ("declared args", "live args", "engine log", "metrics", "behaviour")
            for line in (
                name,
                "yes: on",
                f"{name.replace(' ', '_')} said so",
                "more",
                "somewhere",
                "2026-01-01T00:00:00Z",
            )
        ],
        "Acceptance by draft position",
        "Share of the 20 drafts whose tokens were accepted at least as far as each position.",
        "Acceptance by draft position: 1: 90%, 2: 75%, 3: 60%, 4: 55%, 5: 45%",
        *["0 %", "50 %", "100 %"],
        *["90%", "1", "75%", "2", "60%", "3", "55%", "4", "45%", "5"],
        "draft position",
        "What was counted",
        *["mean acceptance length", "4.25 tokens per step with a draft"],
        *["acceptance rate", "65% (65 of 100 draft tokens)"],
        *["drafts", "20"],
        *["answer", "110 tokens in 45 chunks"],
        *["tokens per chunk", "2.44"],
        *["prompt", "150 tokens"],
        "2 requests, temperature 0",
        "This run",
        *["run", "r-1"],
        *["engine", "vLLM 0.23.0"],
        *["started", "2026-01-01T00:00:00Z"],
        *["ended", "2026-01-01T00:00:00Z"],
        "The witnesses and the rule from their answers to the verdict: docs/validation.md.",
    ]


ON, OFF, INERT, UNKNOWN = Reading.ON, Reading.OFF, Reading.INERT, Reading.UNKNOWN
BASELINE = verdict(verdict=Outcome.BASELINE, declared=Outcome.BASELINE)
MARKED = [
    pytest.param(
        replace(BASELINE, witnesses=read(BASELINE, OFF, OFF, OFF, OFF, OFF)),
        [("good", "OK: baseline"), *[("good", "no: off")] * 5],
        id="baseline",
    ),
    pytest.param(
        verdict(verdict=Outcome.INERT, ok=False, witnesses=read(verdict(), ON, ON, ON, INERT, OFF)),
        [("bad", "WRONG: on-but-inert"), *[("good", "yes: on")] * 3, ("bad", "no: inert"), ("bad", "no: off")],
        id="on but inert",
    ),
    pytest.param(
        verdict(verdict=Outcome.CANNOT_TELL, ok=False, witnesses=read(verdict(), ON, ON, ON, UNKNOWN, UNKNOWN)),
        [("open", "WRONG: cannot-tell"), *[("good", "yes: on")] * 3, *[("open", "unknown")] * 2],
        id="cannot tell",
    ),
]


@pytest.mark.parametrize(("given", "found"), MARKED)
def test_what_stands_out_says_right_wrong_or_open(given: Verdict, found: list[tuple[str, str]]) -> None:
    assert marks(verdict_page(given)) == found


def test_what_was_not_counted_is_said() -> None:
    none = words(verdict_page(CANNOT_TELL))
    assert "No answer came back, so nothing was counted." in none
    assert "Nothing was drafted while the probe ran, so there is nothing to draw." in none
    undrafted = replace(
        NUMBERS, drafts=0, draft_tokens=0, accepted_tokens=0, acceptance_length=None, acceptance_rate=None,
        accepted_per_position=(), tokens_per_chunk=None,
    )  # fmt: skip
    without = words(verdict_page(verdict(numbers=undrafted)))
    assert without[without.index("What was counted") :][1:7] == [
        *["drafts", "0"],
        *["answer", "110 tokens in 45 chunks"],
        *["prompt", "150 tokens"],
    ]


HOSTILE = "</li></style><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_evidence_cannot_become_html() -> None:
    witnesses = tuple(
        replace(witness, evidence=(HOSTILE,), source=HOSTILE, time=HOSTILE) for witness in verdict().witnesses
    )
    given = verdict(
        witnesses=witnesses,
        sentence=HOSTILE,
        notes=(HOSTILE,),
        run=HOSTILE,
        engine_version=HOSTILE,
        started=HOSTILE,
        ended=HOSTILE,
        numbers=replace(NUMBERS, conditions=HOSTILE),
    )
    document = verdict_page(given)
    assert "<script" not in document and "<img" not in document
    assert document.count("</style>") == 1
    # All of it is still there to be read.
    assert sum(HOSTILE in line for line in words(document)) == 3 * 5 + 8
