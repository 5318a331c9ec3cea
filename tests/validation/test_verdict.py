from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.findings import Problems
from validation.verdict import Numbers, Outcome, Reading, Verdict, Witness, WitnessName

TIME = "2026-01-01T00:00:00Z"
NUMBERS = Numbers(
    drafts=20,
    draft_tokens=100,
    accepted_tokens=65,
    acceptance_length=4.25,
    acceptance_rate=0.65,
    accepted_per_position=(18, 15, 12, 11, 9),
    prompt_tokens=150,
    completion_tokens=110,
    chunks=45,
    tokens_per_chunk=2.4444,
    conditions="2 requests, temperature 0",
)


def verdict(**changes: object) -> Verdict:
    witnesses = tuple(
        Witness(name, Reading.ON, Reading.ON.says, (f"{name} said so", "more"), "somewhere", TIME)
        for name in WitnessName
    )
    given = Verdict(
        verdict=Outcome.SPECULATING,
        declared=Outcome.SPECULATING,
        ok=True,
        sentence="Speculation works: all agree.",
        witnesses=witnesses,
        numbers=NUMBERS,
        run="r-1",
        engine_version="0.23.0",
        started=TIME,
        ended=TIME,
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def unknown(given: Verdict, name: WitnessName, why: str) -> tuple[Witness, ...]:
    return tuple(
        replace(witness, reading=Reading.UNKNOWN, says=Reading.UNKNOWN.says, evidence=(), why=why)
        if witness.name is name
        else witness
        for witness in given.witnesses
    )


CANNOT_TELL = verdict(
    verdict=Outcome.CANNOT_TELL,
    ok=False,
    sentence="Too few witnesses could say.",
    witnesses=unknown(verdict(), WitnessName.METRICS, "connection refused"),
    numbers=None,
)


@pytest.mark.parametrize("given", [verdict(), CANNOT_TELL], ids=["speculating", "cannot tell"])
def test_a_verdict_survives_its_document(given: Verdict) -> None:
    assert Verdict.from_json(given.to_json()) == given
    assert Verdict.from_json(given.to_json().encode()) == given


def test_the_document_begins_with_its_schema() -> None:
    assert verdict().to_json().startswith('{"schema":1,"verdict":"speculating","declared":"speculating","ok":true,')


def test_the_text_fits_a_terminal() -> None:
    assert verdict().text() == (
        "OK: speculating (declared: speculating). Speculation works: all agree.\n"
        "declared args  yes      declared_args said so\n"
        "live args      yes      live_args said so\n"
        "engine log     yes      engine_log said so\n"
        "metrics        yes      metrics said so\n"
        "behaviour      yes      behaviour said so\n"
        "110 tokens in 45 chunks; 20 drafts, 65 of 100 draft tokens accepted (65%), mean acceptance length\n"
        "4.25 (2 requests, temperature 0)"
    )
    assert CANNOT_TELL.text() == (
        "WRONG: cannot-tell (declared: speculating). Too few witnesses could say.\n"
        "declared args  yes      declared_args said so\n"
        "live args      yes      live_args said so\n"
        "engine log     yes      engine_log said so\n"
        "metrics        unknown  connection refused\n"
        "behaviour      yes      behaviour said so"
    )


def document(**changes: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(verdict().to_json())
    return found | changes


WITNESS = document()["witnesses"][0]
REST = document()["witnesses"][1:]
REFUSED = {
    "not JSON": ("nothing", ["error: verdict: not JSON: Expecting value: line 1 column 1 (char 0)"]),
    "not an object": ([], ["error: verdict: []: not a JSON object"]),
    "no schema": (
        {},
        ["error: verdict.schema: this program reads schema 1 only; use the program of the version that wrote it"],
    ),
    "another schema": (
        document(schema=2, new="field"),
        ["error: verdict.schema: 2: this program reads schema 1 only; use the program of the version that wrote it"],
    ),
    "unknown and missing fields": (
        {key: value for key, value in document(extra=1).items() if key != "run"},
        ["error: verdict.extra: 1: unknown field", "error: verdict.run: missing"],
    ),
    "unknown words": (
        document(verdict="fine", witnesses=[WITNESS | {"says": "maybe"}, *REST]),
        [
            "error: verdict.verdict: fine: not one of speculating, baseline, on-but-inert, declared-but-off, "
            "corrupt-output, cannot-tell",
            "error: verdict.witnesses[0].says: maybe: not one of yes, no, unknown",
        ],
    ),
    "wrong types": (
        document(
            ok=1,
            witnesses=[WITNESS | {"evidence": "text"}, *REST],
            numbers=document()["numbers"] | {"drafts": True},
        ),
        [
            "error: verdict.ok: 1: not of type bool",
            "error: verdict.witnesses[0].evidence: text: not a list",
            "error: verdict.numbers.drafts: True: not of type int",
        ],
    ),
    "ok that is not": (
        document(ok=False),
        ["error: verdict.ok: False: the verdict is speculating, declared is speculating"],
    ),
    "a witness too few": (
        document(witnesses=REST),
        [
            "error: verdict.witnesses: ['live_args', 'engine_log', 'metrics', 'behaviour']: "
            "each witness is named once, in order"
        ],
    ),
    "a witness that says otherwise than it read": (
        document(witnesses=[WITNESS | {"reading": "off"}, *REST]),
        ["error: verdict.witnesses[0].says: yes: the reading off says no"],
    ),
    "an unknown without why": (
        document(witnesses=[WITNESS | {"reading": "unknown", "says": "unknown"}, *REST]),
        ["error: verdict.witnesses[0].why: '': an unknown, and only an unknown, says why"],
    ),
    "a declaration that no recipe makes": (
        document(declared="corrupt-output", ok=False),
        ["error: verdict.declared: corrupt-output: a recipe declares speculating or baseline"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "lines"), REFUSED.values(), ids=REFUSED.keys())
def test_a_document_that_is_not_known_fully_is_refused(given: object, lines: list[str]) -> None:
    with pytest.raises(Problems) as caught:
        Verdict.from_json(given if isinstance(given, str) else json.dumps(given))
    assert str(caught.value).splitlines() == lines
