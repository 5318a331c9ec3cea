from __future__ import annotations

import re

import pytest

from engine import metrics
from engine.exposition import Sample, parse_exposition
from engine.metrics import SpeculationDelta, Totals, contradictions, parse_metrics, speculation_delta
from engine.names import METRICS, Presence, presence
from engine.versions import TABLE
from tests.engine.samples import sample

# engine -> (drafts, draft tokens, accepted by position, generated tokens)
Engines = dict[str, tuple[float, float, list[float], float]]


def page(engines: Engines, *, model: str = "a", speculates: bool = True, started: float = 1.7e9) -> str:
    """A scrape in vLLM's format."""
    lines = ["# HELP process_start_time_seconds x", f"process_start_time_seconds {started}"]
    for engine, (drafts, tokens, accepted, generated) in engines.items():
        labels = f'engine="{engine}",model_name="{model}"'
        if speculates:
            lines += [
                f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}",
                f"vllm:spec_decode_num_drafts_created{{{labels}}} {started}",
                f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {tokens}",
                f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {sum(accepted)}",
            ]
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            lines += [f'{name}{{{labels},position="{place}"}} {count}' for place, count in enumerate(accepted)]
        lines += [
            f"vllm:generation_tokens_total{{{labels}}} {generated}",
            f"vllm:generation_tokens_created{{{labels}}} {started}",
            f'vllm:request_success_total{{{labels},finished_reason="stop"}} {1.0}',
        ]
    return "\n".join(lines) + "\n"


ZERO: Engines = {"0": (0, 0, [0, 0], 0)}


def delta(before: str, after: str, model: str | None = None, k: int | None = None) -> SpeculationDelta:
    return speculation_delta(parse_metrics(before), parse_metrics(after), model, k=k)


def test_a_scrape_is_read_into_totals_of_its_model() -> None:
    scrape = parse_metrics(page({"0": (100, 190, [90, 60], 300)}))
    assert scrape.models == ("a",)
    assert scrape.totals("b") is None
    assert scrape.totals("a") == Totals(
        model="a",
        engines=("0",),
        drafts=100,
        draft_tokens=190,
        accepted=150,
        per_position=(90, 60),
        generated=300,
        finished=1,
        prefix_queries=None,
        prefix_hits=None,
        started=(("engine 0", 1.7e9), ("process", 1.7e9)),
    )


def test_e24_two_engines_of_one_model_are_summed_and_created_lines_are_not() -> None:
    two: Engines = {"0": (100.0, 190, [90, 60], 300), "1": (50.0, 100, [40, 5], 100)}
    other = page({"0": (999, 999, [999], 999)}, model="b").split("\n", 2)[2]
    totals = parse_metrics(page(two) + other).totals("a")
    assert totals is not None
    assert (totals.engines, totals.drafts, totals.draft_tokens, totals.accepted, totals.per_position) == (
        ("0", "1"),
        150,
        290,
        195,
        (130, 65),
    )


def test_two_scrapes_give_what_happened_between_them() -> None:
    found = delta(page({"0": (10, 20, [5, 1], 50)}), page({"0": (110, 210, [95, 61], 350)}))
    assert found == SpeculationDelta(
        "measured", drafts=100, draft_tokens=190, accepted=150, per_position=(90, 60), generated=300, finished=0
    )
    assert (found.acceptance_rate, found.mean_acceptance_length, found.position_rates) == (150 / 190, 2.5, (0.9, 0.6))
    assert (found.undrafted_tokens, found.tokens_per_step, found.coverage, found.inert) == (50, 2.0, 1 - 50 / 300, None)


def test_e28_a_warm_up_before_the_first_scrape_does_not_count() -> None:
    warm: Engines = {"0": (40, 200, [40] * 5, 241)}
    later: Engines = {"0": (50, 250, [41] * 5, 300)}
    found = delta(page(warm), page(later))
    assert (found.drafts, found.draft_tokens, found.accepted, found.generated) == (10, 50, 5, 59)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            page({"0": (5000, 9000, [2, 1], 9)}),
            page({"0": (200, 400, [2, 1], 9)}),
            "vllm:spec_decode_num_drafts_total went from 5000 to 200: the engine restarted, or another replica "
            "answered",
        ),
        (
            page({"0": (5, 9, [2, 1], 900)}),
            page({"0": (50, 90, [20, 10], 9)}),
            "vllm:generation_tokens_total went from 900 to 9: the engine restarted, or another replica answered",
        ),
        (
            page({"0": (5, 9, [2, 1], 9)}),
            page({"0": (50, 90, [20, 10], 90)}, started=1.8e9),
            "the process is another one: the engine restarted, or another replica answered",
        ),
        (
            page({"0": (100, 200, [90, 60], 300), "1": (50, 100, [40, 5], 100)}),
            page({"0": (10, 20, [9, 6], 30), "1": (500, 1000, [400, 50], 1000)}),
            "vllm:spec_decode_num_drafts_total went from 100 to 10: the engine restarted, or another replica answered",
        ),
        (
            page({"0": (1, 2, [1, 1], 3), "1": (1, 2, [1, 1], 3)}),
            page({"0": (1, 2, [1, 1], 3)}),
            "the engines changed from 0, 1 to 0",
        ),
        (
            page({"0": (1, 2, [1, 1], 3)}),
            page({"0": (1, 2, [1, 1], 3)}, speculates=False),
            "the counters of speculation came or went: the engine restarted, or another replica answered",
        ),
    ],
)
def test_e29_counters_that_went_back_are_a_reset_and_are_never_clamped(before: str, after: str, reason: str) -> None:
    found = delta(before, after)
    assert found == SpeculationDelta("reset", reason)
    assert (found.acceptance_rate, found.mean_acceptance_length, found.tokens_per_step, found.inert) == (None,) * 4


def test_e30_a_balancer_between_two_replicas_shows_as_a_reset() -> None:
    first, second = page({"0": (4, 8, [4, 4], 12)}), page({"0": (8, 16, [8, 8], 24)}, started=1.75e9)
    assert delta(first, second).state == "reset"
    assert delta(second, first).state == "reset"


def test_e32_a_rate_far_too_low_is_reported_as_it_is() -> None:
    found = delta(page(ZERO), page({"0": (500, 1000, [11, 1], 600)}))
    assert found.acceptance_rate == pytest.approx(0.012)
    assert found.inert is None


@pytest.mark.parametrize(
    ("after", "inert"),
    [
        ({"0": (0, 0, [0, 0], 160)}, "speculation is on, but nothing was drafted"),
        ({"0": (80, 400, [0, 0], 160)}, "speculation is on, but no drafted token was accepted"),
        ({"0": (80, 400, [9, 0], 160)}, None),
        ({"0": (0, 0, [0, 0], 0)}, None),
    ],
)
def test_e33_speculation_that_does_nothing_is_inert(after: Engines, inert: str | None) -> None:
    found = delta(page(ZERO), page(after))
    assert (found.state, found.inert) == ("measured", inert)


def test_e35_length_per_drafted_step_and_per_step_are_both_given() -> None:
    found = delta(page(ZERO), page({"0": (992, 4960, [3563, 0], 5376)}))
    assert found.mean_acceptance_length == pytest.approx(4.59, abs=0.005)
    assert found.undrafted_tokens == 821
    assert found.tokens_per_step == pytest.approx(2.96, abs=0.006)
    assert found.coverage == pytest.approx(1 - 821 / 5376)


def test_e37_every_metric_that_is_queried_exists_in_every_version() -> None:
    queried = {*metrics.COUNTERS, metrics.ACCEPTED_PER_POSITION}
    missing = [
        (str(row.since), name)
        for row in TABLE
        for name in queried
        if presence(METRICS, name, row.since) is not Presence.PRESENT
    ]
    assert missing == []


def test_e37_every_metric_of_the_table_is_on_the_real_page() -> None:
    text = sample("0.32.0-ngram.metrics.txt")
    row = TABLE[-2]
    families = set(re.findall(r"(?m)^(vllm:[a-z0-9_:]+)\{", text))
    families |= {re.sub(r"_(?:bucket|count|sum)$", "", name) for name in families}
    expected = {name for name in METRICS if presence(METRICS, name, row.since) is Presence.PRESENT}
    assert expected - families == set()


@pytest.mark.parametrize(
    ("before", "after", "model", "found"),
    [
        (
            page(ZERO, speculates=False),
            page({"0": (0, 0, [], 9)}, speculates=False),
            None,
            SpeculationDelta("off", "no counters of speculation", generated=9, finished=0),
        ),
        ("", "", None, SpeculationDelta("unknown", "the page has no metrics of vLLM")),
        (
            page(ZERO),
            page(ZERO),
            "z",
            SpeculationDelta("unknown", "no metrics of model z; the page has a"),
        ),
        ("", page(ZERO), "a", SpeculationDelta("unknown", "no metrics of model a; the page has no model")),
        (
            page(ZERO) + page(ZERO, model="b"),
            page(ZERO) + page(ZERO, model="b"),
            None,
            SpeculationDelta("unknown", "the page has the models a, b: name one"),
        ),
    ],
)
def test_what_the_pages_do_not_say_is_not_made_up(
    before: str, after: str, model: str | None, found: SpeculationDelta
) -> None:
    assert delta(before, after, model) == found


@pytest.mark.parametrize(
    ("numbers", "k", "problems"),
    [
        ((100, 200, 150, (90, 60)), None, []),
        ((100, 200, 150, (90, 60)), 2, []),
        (
            (100, 201, 150, (90, 60)),
            None,
            ["201 tokens drafted in 100 drafts of at most 2"],
        ),
        ((100, 200, 150, (90, 60)), 1, ["200 tokens drafted in 100 drafts of at most 1"]),
        ((100, 99, 60, (60, 0)), None, ["100 drafts of only 99 tokens"]),
        ((100, 100, 150, (90, 60)), None, ["150 tokens accepted of 100 drafted"]),
        ((100, 200, 150, (90, 61)), None, ["accepted tokens by position sum to 151, not to 150"]),
        ((100, 200, 150, (60, 90)), None, ["acceptance rises with the position: 60, 90"]),
    ],
)
def test_counters_that_break_their_definitions_are_said(
    numbers: tuple[int, int, int, tuple[int, ...]], k: int | None, problems: list[str]
) -> None:
    drafts, tokens, accepted, positions = numbers
    found = SpeculationDelta("measured", drafts=drafts, draft_tokens=tokens, accepted=accepted, per_position=positions)
    assert contradictions(found, k) == problems


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("a 1", Sample("a", {}, 1.0)),
        ("a{} 1e3 1700000000", Sample("a", {}, 1000.0)),
        ('a{b="c",d="e",} 1 # {x="y"} 2', Sample("a", {"b": "c", "d": "e"}, 1.0)),
        (r'a{b="\"q\" \\ \n }, x=\"1"} +Inf', Sample("a", {"b": '"q" \\ \n }, x="1'}, float("inf"))),
        ("a:b_c 0.5", Sample("a:b_c", {}, 0.5)),
        ("a", None),
        ("a one", None),
        ('a{b="c} 1', None),
        ("1a 2", None),
        ("{} 1", None),
    ],
)
def test_a_line_of_the_exposition_is_read_or_counted(line: str, read: Sample | None) -> None:
    found = parse_exposition(f"# HELP a x\n{line}\n\n")
    assert (found.samples, found.unread) == (((read,), 0) if read else ((), 1))


def test_the_real_scrapes_are_read_right() -> None:
    ngram = parse_metrics(sample("0.32.0-ngram.metrics.txt"))
    totals = ngram.totals("smol")
    assert (ngram.page.unread, ngram.models) == (0, ("smol",))
    assert totals is not None
    assert totals == Totals("smol", ("0",), 108, 540, 363, (75, 72, 72, 72, 72), 480, 3, 0, 0, started=totals.started)
    assert [name for name, _ in totals.started] == ["engine 0", "process"]
    baseline = parse_metrics(sample("0.32.0-baseline.metrics.txt")).totals("smol")
    assert baseline is not None
    assert (baseline.speculates, baseline.drafts, baseline.generated, baseline.finished) == (False, None, 189, 3)
