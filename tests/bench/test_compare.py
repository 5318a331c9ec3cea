"""The comparison of runs on disk: what it says, and when it says nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.command_compare import main
from bench.compare import Comparison, Equality, Row, compare
from bench.pairs import placed
from bench.records import Arm, Request, Run, Tokens, read_run
from engine.metrics import ACCEPTED, DRAFT_TOKENS, DRAFTS, FINISHED, GENERATED, PREFIX_HITS
from tests.bench.runs import RUN, write

ROOT = Path(__file__).resolve().parents[2]
RUN_USAGE = Tokens(30, 21)
GAINS = {"copy": 2.0, "explain": 1.0, "short": 0.8}
# 800 decode steps, 400 of them drafted, and 600 of 2,000 drafted tokens accepted; 100 requests.
COUNTERS = {DRAFTS: 400, DRAFT_TOKENS: 2000, ACCEPTED: 600, GENERATED: 1500, FINISHED: 100}


def compared(*folders: Path, **options: Any) -> Comparison:
    return compare([read_run(folder) for folder in folders], **options)


def row(found: Comparison, family: str, metric: str = "tpot") -> Row:
    return next(row for row in found.rows if (row.family, row.metric) == (family, metric))


def equality_of(found: Comparison) -> Equality:
    assert found.equality is not None
    return found.equality


def only(arm: Arm, **changes: Any) -> Callable[[Request], Request]:
    """A change of the first repeat of copy/0 in one arm."""

    def change(request: Request) -> Request:
        if (request.arm, request.family, request.case, request.repeat) == (arm, "copy", "0", 0):
            return replace(request, **changes)
        return request

    return change


def test_each_family_is_told_for_itself(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BSSB", gains=GAINS, drift=0.02))
    assert found.order == "BSSB"
    assert found.caveats == ()
    told = {family: (row(found, family).gain.direction, row(found, family).found) for family in GAINS}
    assert told == {
        "copy": ("above 1", True), "explain": ("not told from 1", False), "short": ("below 1", True)
    }  # fmt: skip
    copy = row(found, "copy").gain
    assert copy.low is not None
    assert copy.high is not None
    assert copy.low < 2.0 < copy.high
    assert copy.ratio == pytest.approx(2.0, rel=0.01)
    assert row(found, "copy").pairs == 30
    assert set(row(found, "copy").by_case) == {"copy/0", "copy/1", "copy/2"}
    # A drift of 2 % a block is what the baseline's own blocks differ by, three blocks apart.
    assert row(found, "copy").floor == pytest.approx(1.02**3, abs=0.01)
    assert found.sentence.startswith("At concurrency 1 speculation made decoding (TPOT) ")
    assert "faster for copy" in found.sentence
    assert "1.25x slower for short" in found.sentence
    assert "no difference in TPOT was shown for explain" in found.sentence


def test_throughput_gains_where_latency_does(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BSSB", gains=GAINS))
    assert row(found, "copy", "throughput").gain.ratio == pytest.approx(row(found, "copy", "latency").gain.ratio)
    assert row(found, "copy", "ttft").gain.ratio == pytest.approx(1.0)


def test_arms_in_turn_without_reversal_are_compared_with_a_warning(tmp_path: Path) -> None:
    one = write(tmp_path / "a", "B", drift=0.1)
    other = write(tmp_path / "b", "S", drift=0.1, first_order=1)
    for folders in ((one, other), (other, one)):
        found = compared(*folders)
        # Nothing but the drift is found: that is what the warning is for.
        assert row(found, "copy").gain.ratio == pytest.approx(1 / 1.1, rel=0.01)
        assert "one after the other (BS) without reversal" in found.sentence


def test_a_change_within_the_noise_floor_is_no_finding(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BSSB", gains=dict.fromkeys(GAINS, 1.05), drift=0.05))
    assert row(found, "copy").gain.direction == "above 1"
    assert (row(found, "copy").floor or 0) > row(found, "copy").gain.ratio
    assert not row(found, "copy").found
    assert found.sentence.startswith("No difference in TPOT was shown for copy, explain and short at concurrency 1")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error": "the stream ended early", "status": 200}, "error"),
        ({"status": 503, "error": "HTTP 503"}, "error"),
        ({"text": "foo " * 200}, "loop"),
        ({"finish_reason": "length"}, "cap"),
    ],
)
@pytest.mark.parametrize("arm", [Arm.BASELINE, Arm.SPECULATIVE])
def test_a_pair_with_an_unsound_answer_is_left_out_and_counted(
    tmp_path: Path, arm: Arm, changes: dict[str, Any], reason: str
) -> None:
    found = compared(write(tmp_path / "run", "BS", change=only(arm, **changes)))
    assert found.excluded[arm] == {reason: 1}
    assert row(found, "copy").pairs == 14
    assert row(found, "short").pairs == 15


def test_a_request_without_partner_is_counted(tmp_path: Path) -> None:
    def gone(request: Request) -> Request | None:
        return None if only(Arm.SPECULATIVE, error="x")(request).error else request

    assert compared(write(tmp_path / "run", "BS", change=gone)).excluded == {
        Arm.BASELINE: {"no partner": 1}, Arm.SPECULATIVE: {}
    }  # fmt: skip


def test_cut_answers_are_kept_on_request_when_both_are_equally_long(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", "BSSB", gains=GAINS, change=lambda r: replace(r, finish_reason="length"))
    assert compared(folder).refused == "no pair of sound answers is left: 90 cap (baseline), 90 cap (speculative)"
    assert row(compared(folder, keep_caps=True), "copy").gain.ratio == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([("B", RUN, {})], "no measured block of the speculative arm"),
        ([("B", RUN, {}), ("S", replace(RUN, concurrency=4), {})], "differ in concurrency: 1 and 4"),
        ([("B", RUN, {}), ("S", replace(RUN, max_tokens=64), {})], "differ in max_tokens: 128 and 64"),
        ([("B", RUN, {}), ("S", replace(RUN, repeats=4), {})], "differ in repeats: 5 and 4"),
        ([("BS", replace(RUN, repeats=1), {})], "without a repeat there is no interval"),
        ([("B", RUN, {}), ("S", RUN, {"cases": {"copy": 3}})], "6 cases were measured in one arm only"),
    ],
)
def test_unpaired_unrepeated_or_unequal_data_gives_a_sentence_and_no_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: list[tuple[str, Run, dict[str, Any]]], says: str
) -> None:
    folders = [
        write(tmp_path / str(n), order, run=run, first_order=n, **more) for n, (order, run, more) in enumerate(runs)
    ]
    found = compared(*folders)
    assert says in found.sentence
    assert (found.rows, found.acceptance, found.costs) == ((), None, ())
    assert main([str(folder) for folder in folders]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"**{found.sentence}**")
    assert "TPOT gain" not in out


def test_too_few_cases_are_said_to_be_too_few(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BSSB", gains=GAINS, cases={"copy": 2}))
    assert row(found, "copy").gain.method == "too few cases for an interval"
    assert not row(found, "copy").found
    assert found.sentence.startswith("Too few cases for an interval, and so nothing shown, for copy")


def test_random_tokens_make_no_headline(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BSSB", gains={"random": 3.0}, cases={"random": 3}))
    assert row(found, "random").found
    assert "3.0" not in found.sentence


def test_answers_that_differ_are_shown_beside_repeats_of_the_baseline(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BS", change=only(Arm.SPECULATIVE, text="The answer was another.")))
    equality = equality_of(found)
    assert (equality.pairs, equality.null_pairs, equality.null_exact) == (45, 36, 1.0)
    assert equality.exact == pytest.approx(44 / 45)
    assert equality.first_divergence == len("The answer ")
    assert [(d.case, d.baseline, d.speculative) for d in equality.differences] == [("0", "to copy 0.", "was another.")]
    assert "only 98% of the answers are equal in both arms, 100% between repeats of the baseline" in found.sentence


def test_white_space_is_no_difference_when_normalised(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BS", change=only(Arm.SPECULATIVE, text="The answer  to copy 0.\n")))
    assert [equality_of(found).exact, equality_of(found).normalised] == pytest.approx([44 / 45, 1.0])


def test_the_baseline_that_differs_from_itself_as_often_excuses_the_arms(tmp_path: Path) -> None:
    def unsteady(request: Request) -> Request:
        return replace(request, text=f"{request.text} {request.repeat} {request.arm}")

    found = compared(write(tmp_path / "run", "BSSB", change=unsteady))
    assert (equality_of(found).exact, equality_of(found).null_exact) == (0.0, 0.0)
    assert found.caveats == ()


def test_answers_of_other_length_are_not_the_same_work(tmp_path: Path) -> None:
    shorter = only(Arm.SPECULATIVE, usage=replace(RUN_USAGE, completion_tokens=11))
    found = compared(write(tmp_path / "run", "BS", change=shorter))
    assert (row(found, "copy").pairs, row(found, "copy", "latency").pairs) == (15, 14)
    assert equality_of(found).equal_length == pytest.approx(44 / 45)


def test_acceptance_is_told_with_what_the_engine_counts(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BS", gains=GAINS, counters=COUNTERS)).acceptance
    assert found is not None
    assert found.definition == "vLLM 0.23.0, V1 runner: drafts are steps with a match"
    assert (found.rate, found.length, found.coverage, found.tokens_per_step) == (0.3, 2.5, 0.5, 1.75)
    assert found.measured == pytest.approx((2 * 0.8) ** (1 / 3), rel=0.01)
    assert compared(write(tmp_path / "other", "BS")).acceptance is None


def test_a_spoilt_block_does_not_count_beside_the_one_that_replaced_it(tmp_path: Path) -> None:
    folder = read_run(write(tmp_path / "run", "BSSB"))
    blocks = [replace(block, problems=("restarted",) if block.index == 1 else ()) for block in folder.run.blocks]
    found = placed([replace(folder, run=replace(folder.run, blocks=tuple(blocks)))])
    assert [(place.block.index, len(place.requests)) for place in found] == [(0, 45), (2, 45), (3, 45)]


def test_cache_hits_where_there_was_to_be_no_cache_are_a_caveat(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BS", counters=COUNTERS | {PREFIX_HITS: 64}))
    assert "64 tokens came from the prefix cache in block 1, which was to be off" in found.caveats


def test_what_else_the_engines_differ_in_is_listed(tmp_path: Path) -> None:
    one = write(tmp_path / "a", "B", run=replace(RUN, engine=replace(RUN.engine, log_facts={"runner": "V2"})))
    engine = replace(RUN.engine, log_facts={"runner": "V1"}, device={"name": "L4"})
    other = write(tmp_path / "b", "S", first_order=1, run=replace(RUN, engine=engine))
    assert compared(one, other).differences == ("log runner: V2 | V1", "device name: not told | L4")


def test_cost_follows_from_price_and_throughput(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "run", "BSSB"), price_per_hour=3.6)
    for cost in found.costs:
        assert cost.per_million == pytest.approx(0.001 / cost.tokens_per_s * 1e6)
    assert [cost.per_million for cost in compared(tmp_path / "run").costs] == [None, None]


def test_markdown_and_json_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "run", "BSSB", gains=GAINS, counters=COUNTERS)
    assert main([str(folder), "--json", "--markdown", str(tmp_path / "out.md")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    text = (tmp_path / "out.md").read_text()
    assert text.startswith(f"**{document['sentence']}**\n")
    copy = next(row for row in document["rows"] if (row["family"], row["metric"]) == ("copy", "tpot"))
    gain = copy["gain"]
    assert f"| copy | TPOT | {gain['ratio']:.2f} | {gain['low']:.2f} to {gain['high']:.2f} | 3, 0 |" in text
    assert "all families" in text


def test_the_recipes_script_is_the_command(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a", "B"), write(tmp_path / "b", "S", first_order=1)
    script = ROOT / "recipes" / "polyaxon" / "compare.py"
    words = [sys.executable, str(script), str(one), str(other)]
    done = subprocess.run(words, cwd=script.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("**No difference in TPOT was shown for copy, explain and short at concurrency 1")


@pytest.mark.parametrize(
    ("words", "says"), [(["missing"], "missing/run.json"), (["a", "b", "c"], "one or two folders")]
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main([str(tmp_path / word) for word in words]) == 2
    assert says in capsys.readouterr().err
