"""The table from witnesses to verdict: named situations, and promises that hold in all combinations."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from validation.rules import POSSIBLE, decide, sentence, written_into
from validation.verdict import Outcome, Reading, Says, Witness, WitnessName

ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = {
    "on": Reading.ON, "off": Reading.OFF, "dif": Reading.DIFFERS, "inr": Reading.INERT, "bad": Reading.CORRUPT,
    "?": Reading.UNKNOWN,
}  # fmt: skip

# declared, live args, engine log, metrics, behaviour -> verdict
CASES = [
    # A recipe with speculation.
    ("on  on  on  on  on ", "speculating", "all agree"),
    ("on  on  ?   on  on ", "speculating", "start-up lines rotated away"),
    ("on  ?   on  on  on ", "speculating", "the pod may not be read"),
    ("on  ?   ?   on  on ", "cannot-tell", "nothing says how it was configured"),
    ("on  on  on  ?   on ", "cannot-tell", "counters reset or switched off"),
    ("on  on  on  on  ?  ", "cannot-tell", "404, no usage, cut off"),
    ("on  on  on  on  off", "cannot-tell", "the counters claim drafts that the stream does not show"),
    ("on  off on  on  on ", "cannot-tell", "live args contradict the engine"),
    ("on  on  off on  on ", "cannot-tell", "the log contradicts the counters"),
    ("on  on  on  off on ", "cannot-tell", "the counters contradict the log"),
    ("on  off on  off off", "cannot-tell", "only the log says on"),
    ("on  dif on  on  on ", "cannot-tell", "another k runs than declared"),
    ("on  on  dif on  on ", "cannot-tell", "another k was started than declared"),
    ("on  dif dif inr off", "cannot-tell", "another config runs, inert"),
    ("on  on  on  inr off", "on-but-inert", "nothing drafted or accepted"),
    ("on  on  on  inr on ", "on-but-inert", "merged chunks do not excuse the counters"),
    ("on  on  ?   inr off", "on-but-inert", "inert, start-up lines rotated away"),
    ("on  ?   ?   inr off", "on-but-inert", "counters that exist prove that it is on"),
    ("on  on  on  inr ?  ", "cannot-tell", "no whole answer while the counters were watched"),
    ("on  off on  inr off", "cannot-tell", "live args contradict the engine, inert"),
    ("on  on  off inr off", "cannot-tell", "the log contradicts the counters, inert"),
    ("on  on  off off off", "declared-but-off", "the engine dropped the flag"),
    ("on  off off off off", "declared-but-off", "the flag was never forwarded"),
    ("on  off off off on ", "declared-but-off", "merged chunks prove nothing"),
    ("on  off ?   off off", "declared-but-off", "never forwarded, start-up lines rotated away"),
    ("on  off ?   ?   off", "declared-but-off", "only the pod's spec can be seen"),
    ("on  ?   off ?   ?  ", "declared-but-off", "only the log can be seen"),
    ("on  on  ?   off ?  ", "declared-but-off", "only the counters can be seen"),
    ("on  dif off off off", "declared-but-off", "another config in the pod, and none in the engine"),
    ("on  on  ?   ?   on ", "cannot-tell", "the counters cannot be seen, the stream is no proof"),
    ("on  ?   ?   ?   ?  ", "cannot-tell", "nothing can be seen"),
    ("on  on  on  on  bad", "corrupt-output", "garbage at record speed"),
    ("on  off off off bad", "corrupt-output", "garbage without speculation"),
    ("on  ?   ?   ?   bad", "corrupt-output", "garbage is enough"),
    ("on  on  on  on  dif", "cannot-tell", "it thinks, and that was declared off"),
    ("on  on  off off dif", "declared-but-off", "the engine dropped the flag, and thinks"),
    ("on  on  on  inr dif", "cannot-tell", "inert, and it thinks"),
    # A recipe without.
    ("off off off off off", "baseline", "all agree"),
    ("off off off off on ", "baseline", "a slow reader merges chunks"),
    ("off off ?   off off", "baseline", "start-up lines rotated away"),
    ("off ?   off off off", "baseline", "the pod may not be read"),
    ("off off off ?   off", "baseline", "statistics switched off"),
    ("off off ?   ?   off", "cannot-tell", "the pod's spec alone does not prove what runs"),
    ("off ?   ?   off off", "cannot-tell", "one witness is not enough for an absence"),
    ("off off off off ?  ", "cannot-tell", "no whole answer"),
    ("off off off off bad", "corrupt-output", "garbage"),
    ("off off off off dif", "cannot-tell", "it thinks, and that was declared off"),
    ("off dif off off off", "cannot-tell", "another flag runs than declared"),
    ("off off dif off off", "cannot-tell", "another version runs than the image names"),
    ("off on  on  on  on ", "speculating", "speculates although none is declared"),
    ("off on  on  inr off", "on-but-inert", "inert although none is declared"),
    ("off on  off off off", "cannot-tell", "live args contradict the engine"),
    ("off off on  off off", "cannot-tell", "the log contradicts the rest"),
    ("off off off on  off", "cannot-tell", "the counters contradict the rest"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "verdict", "situation"), CASES, ids=[case[2] for case in CASES])
def test_each_situation_has_its_verdict(words: str, verdict: str, situation: str) -> None:
    readings = dict(zip(WitnessName, [WORDS[word] for word in words.split()], strict=True))
    assert decide(readings) == verdict


ALL = [dict(zip(POSSIBLE, combination, strict=True)) for combination in itertools.product(*POSSIBLE.values())]
LIVE, LOG, METRICS = WitnessName.LIVE_ARGS, WitnessName.ENGINE_LOG, WitnessName.METRICS
CLUSTER = (LIVE, LOG, METRICS)
RIGHT = {Reading.ON: Outcome.SPECULATING, Reading.OFF: Outcome.BASELINE}


def is_right(readings: dict[WitnessName, Reading]) -> bool:
    return decide(readings) is RIGHT[readings[WitnessName.DECLARED_ARGS]]


def test_unknown_is_never_counted_as_yes() -> None:
    """Wherever an unknown still gives the right verdict, the honest answer in its place gives it too."""
    for readings in filter(is_right, ALL):
        for name in CLUSTER:
            if readings[name] is Reading.UNKNOWN:
                assert is_right({**readings, name: readings[WitnessName.DECLARED_ARGS]}), readings
        assert readings[WitnessName.BEHAVIOUR] is not Reading.UNKNOWN
        assert sum(readings[name] is Reading.UNKNOWN for name in CLUSTER) <= 1


def test_one_yes_never_outvotes_a_no() -> None:
    """Speculating admits no witness of the cluster that says no; baseline none that says yes."""
    for readings in ALL:
        said = {readings[name].says for name in CLUSTER}
        if decide(readings) is Outcome.SPECULATING:
            assert Says.NO not in said, readings
            assert readings[WitnessName.BEHAVIOUR].says is Says.YES, readings
            assert readings[METRICS].says is Says.YES, readings
        if decide(readings) is Outcome.BASELINE:
            assert Says.YES not in said, readings
            assert Reading.INERT not in {readings[name] for name in CLUSTER}, readings


def test_one_witness_that_lies_never_leaves_a_wrong_engine_right() -> None:
    """The truth is wrong, one witness says what would be right: the verdict is still not right."""
    on, off, inert = Reading.ON, Reading.OFF, Reading.INERT
    truths = [(on, on, off, off, off), (on, off, off, off, off), (on, on, on, inert, off), (off, on, on, on, on)]
    for truth in truths:
        readings = dict(zip(WitnessName, truth, strict=True))
        for name in (LIVE, LOG, METRICS, WitnessName.BEHAVIOUR):
            for lie in POSSIBLE[name]:
                assert not is_right({**readings, name: lie}), (truth, name, lie)


def test_what_differs_from_the_recipe_is_never_right() -> None:
    for readings in ALL:
        assert Reading.DIFFERS not in readings.values() or not is_right(readings), readings


def test_a_corrupt_answer_is_corrupt_whatever_the_rest_says() -> None:
    for readings in ALL:
        corrupt = readings[WitnessName.BEHAVIOUR] is Reading.CORRUPT
        assert (decide(readings) is Outcome.CORRUPT) is corrupt


def witnesses(**given: tuple[Reading, str]) -> list[Witness]:
    return [
        Witness(
            name=name,
            reading=given[name][0],
            says=given[name][0].says,
            evidence=() if given[name][0] is Reading.UNKNOWN else (given[name][1],),
            source="here",
            time="2026-01-01T00:00:00Z",
            why=given[name][1] if given[name][0] is Reading.UNKNOWN else "",
        )
        for name in WitnessName
    ]


AGREED = {
    "declared_args": (Reading.ON, "k=5"),
    "live_args": (Reading.ON, "k=5"),
    "engine_log": (Reading.ON, "SpeculativeConfig"),
    "metrics": (Reading.ON, "10 drafts"),
    "behaviour": (Reading.ON, "sound"),
}
SENTENCES: list[tuple[dict[str, tuple[Reading, str]], str]] = [
    (
        {},
        "Speculation works: declared args, live args, engine log, metrics and behaviour agree.",
    ),
    (
        {"engine_log": (Reading.UNKNOWN, "rotated away")},
        "Speculation works: declared args, live args, metrics and behaviour agree; "
        "not known from engine log (rotated away).",
    ),
    (
        {"metrics": (Reading.OFF, "no counters")},
        "The witnesses disagree: declared args (k=5), live args (k=5), engine log (SpeculativeConfig) and "
        "behaviour (sound) for speculation, metrics (no counters) against it.",
    ),
    (
        {"live_args": (Reading.DIFFERS, "k=3; declared: k=5")},
        "What runs is not what the recipe declares (k=5): live args: k=3; declared: k=5.",
    ),
    (
        {"engine_log": (Reading.OFF, "speculative_config=None"), "metrics": (Reading.OFF, "no counters")},
        "The recipe declares speculation and the engine runs without it: "
        "engine log: speculative_config=None; metrics: no counters.",
    ),
    (
        {"metrics": (Reading.INERT, "0 drafts")},
        "Speculation is on and does nothing: 0 drafts.",
    ),
    (
        {"behaviour": (Reading.CORRUPT, "edit: the completion is empty")},
        "The answer is not sound: edit: the completion is empty.",
    ),
    (
        {"behaviour": (Reading.UNKNOWN, "404"), "metrics": (Reading.UNKNOWN, "nothing was generated")},
        "Too little could be seen to say whether speculation works; "
        "not known from metrics (nothing was generated) and behaviour (404).",
    ),
    (
        {"declared_args": (Reading.OFF, "no speculative config")},
        "Speculation works: live args, engine log, metrics and behaviour agree; but the recipe declares none.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), SENTENCES, ids=[case[1][:60] for case in SENTENCES])
def test_the_sentence_names_what_it_rests_on(changes: dict[str, tuple[Reading, str]], expected: str) -> None:
    told = witnesses(**{**AGREED, **changes})
    assert sentence(decide({witness.name: witness.reading for witness in told}), told) == expected


def test_the_baseline_sentence_names_the_witnesses_of_the_absence() -> None:
    off = dict.fromkeys(AGREED, (Reading.OFF, "none")) | {"engine_log": (Reading.UNKNOWN, "rotated away")}
    assert sentence(Outcome.BASELINE, witnesses(**off)) == (
        "The engine runs without speculation, as declared: live args and metrics agree; "
        "not known from engine log (rotated away)."
    )


def test_the_table_in_the_documentation_is_current() -> None:
    document = (ROOT / "docs" / "validation.md").read_text()
    assert written_into(document) == document
