from __future__ import annotations

from dataclasses import replace

import pytest

from engine.lines import LogLine
from engine.stats import EngineWindow, SpecWindow, read_engine_window, read_spec_window


def test_e22_a_window_without_drafts_has_no_rate() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, Drafted throughput: "
        "0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: , Avg Draft acceptance "
        "rate: nan%"
    )
    window = read_spec_window(LogLine(line))
    assert window == SpecWindow(None, None, 0, 0, None, None, None, 0.0, 0.0)
    assert window is not None
    assert (window.drafts, window.problems()) == (None, [])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "SpecDecoding metrics: Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, Accepted: 150 tokens, "
            "Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264",
            SpecWindow(None, None, 150, 387, 2.16, 0.388, (0.543, 0.357, 0.264), None, None),
        ),
        (
            "SpecDecoding metrics: Draft acceptance rate: 100.0%, Accepted: 66 tokens, Drafted: 66 tokens",
            SpecWindow(None, None, 66, 66, None, 1.0, None, None, None),
        ),
        (
            "SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, Drafted "
            "throughput: 5.00 tokens/s, Accepted: 0 tokens, Drafted: 50 tokens, Per-position acceptance rate: 0.000, "
            "0.000, Avg Draft acceptance rate: 0.0%",
            SpecWindow(None, None, 0, 50, 1.0, 0.0, (0.0, 0.0), 0.0, 5.0),
        ),
        ("SpecDecoding metrics: Mean acceptance length: 3.00", None),
        ("DiffusionDecoding metrics: Accepted: 1 tokens, Drafted: 1 tokens", None),
        ("prompt: 'SpecDecoding metrics: Accepted: 1 tokens, Drafted: 1 tokens'", None),
    ],
)
def test_lines_of_other_versions_are_read_as_far_as_they_go(message: str, expected: SpecWindow | None) -> None:
    assert read_spec_window(LogLine(message)) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Engine 003: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 "
            "reqs, Waiting: 4 reqs, Deferred: 2 reqs, KV fetch: 1 waiting to start, 2 in progress, 3 completed "
            "waiting, CPU KV cache usage: 0.3%",
            EngineWindow(None, 3, 1, 1.0, 2.0, 1, 4, "CPU", 0.003, None),
        ),
        (
            "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 "
            "reqs, Waiting: 0 reqs, Preemptions: 3, GPU KV cache usage: 0.3%, Prefix cache hit rate: 50.0%, "
            "Corrupted: 1 reqs",
            EngineWindow(None, 0, 1, 1.0, 2.0, 1, 0, "GPU", 0.003, 0.5),
        ),
        ("Engine core initialization failed.", None),
    ],
)
def test_engine_lines_of_other_versions_are_read(message: str, expected: EngineWindow | None) -> None:
    assert read_engine_window(LogLine(message)) == expected


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, []),
        ({"accepted": 500, "acceptance_rate": None}, ["accepted 500 of 400 drafted tokens"]),
        ({"acceptance_rate": 0.5}, ["acceptance rate 50.0% is not 150/400"]),
        (
            {"position_rates": (0.15, 0.3, 0.45, 0.6)},
            ["acceptance rises with the position: 0.150, 0.300, 0.450, 0.600"],
        ),
        ({"mean_length": 3.5}, ["position rates sum to 1.500, not to the mean length 3.5 less 1"]),
    ],
)
def test_a_line_that_contradicts_itself_is_said(changes: dict[str, object], problem: list[str]) -> None:
    window = SpecWindow(None, 0, 150, 400, 2.5, 0.375, (0.6, 0.45, 0.3, 0.15), 15.0, 40.0)
    assert window.problems() == []
    assert window.drafts == 100
    assert replace(window, **changes).problems() == problem  # type: ignore[arg-type]
