from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench.records import Arm, read_run
from bench.schedule import Design
from bench.switch import Placed
from tests.bench.experiments import measure, metrics, page, plan, run
from tests.bench.hostile import PLAIN, answer, hostile

LOOKS = 4  # of one look at the pages
VERSION = {"/version": [answer(200, {"version": "0.23.0"})]}

# Before anything is asked: pages of /metrics in turn, what was told of the engine, and the line.
AT_ONCE: dict[str, tuple[list[bytes], dict[str, Any], dict[str, Any], str]] = {
    "e60 the engine caches prefixes": (
        [metrics(caching="True")],
        {},
        {},
        "error: prefix_caching: on: the engine was started so; start both arms with --no-enable-prefix-caching, "
        "or give --prefix-caching on",
    ),
    "caching was declared, but is off": (
        [metrics()],
        {},
        {"prefix_caching": True},
        "error: prefix_caching: off: the engine was started so; start both arms with --enable-prefix-caching, "
        "or give --prefix-caching off",
    ),
    "e30 two engines behind the address": (
        [metrics(start=1), metrics(start=2)] * 40,
        {},
        {},
        "error: replicas: 2: not one engine at the address; measure one replica, without autoscaling",
    ),
    "e70 two replicas told": (
        [metrics()],
        {"replicas": 2},
        {},
        "error: replicas: 2: not one engine at the address; measure one replica, without autoscaling",
    ),
    "the baseline speculates": (
        [metrics(k=5)],
        {},
        {"arms": {"A": Arm.BASELINE}},
        "error: arm: baseline: the engine has counters of speculation, so it is the speculative arm; "
        "look at the engine's arguments",
    ),
    "speculation is not on": (
        [metrics()],
        {},
        {"arms": {"A": Arm.SPECULATIVE}},
        "error: arm: speculative: the engine has no counters of speculation, so it is the baseline arm; "
        "look at the engine's arguments",
    ),
    "no such log": (
        [metrics()],
        {"log": "/nowhere/log"},
        {},
        "error: log: /nowhere/log: No such file or directory; give the engine's own log",
    ),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_cannot_be_measured_is_refused_before_it_is_asked(tmp_path: Path, name: str) -> None:
    pages, placed, more, line = AT_ONCE[name]
    lines, state = measure(tmp_path / "out", pages={"/metrics": pages}, placed=placed, **more)
    assert (lines, state.bodies, (tmp_path / "out").exists()) == ([line], [], False)


# The page after the measurement, where the one before is metrics(generated=50), and the line.
SPOILT: dict[str, tuple[dict[str, Any], str]] = {
    "e29 the engine restarted": (
        {"start": 2.0, "generated": 200},
        "the engine is not the one it began with: the process is another one: the engine restarted, "
        "or another replica answered",
    ),
    "e29 a counter went back": (
        {"generated": 20},
        "the engine is not the one it began with: vllm:generation_tokens_total went from 50 to 20: "
        "the engine restarted, or another replica answered",
    ),
    "e60 prompts came from the cache": (
        {"generated": 104, "hits": 32},
        "prompt tokens came from the prefix cache, so repeats are not alike",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_spoils_a_block_is_kept_with_it_and_stops_the_run(tmp_path: Path, name: str) -> None:
    after, why = SPOILT[name]
    pages = {"/metrics": [metrics(generated=50)] * (2 * LOOKS) + [metrics(**after)]}
    lines, _ = measure(tmp_path / "out", pages=pages)
    read = read_run(tmp_path / "out")
    assert len([line for line in lines if line.startswith("error: ") and why in line]) == 1
    assert (len(read.run.blocks), read.measured, len(read.requests)) == (1, (), 9)
    assert why in read.run.blocks[0].problems[0]


def test_other_peoples_requests_and_failures_are_said(tmp_path: Path) -> None:
    pages = {"/metrics": [metrics()] * (2 * LOOKS) + [metrics(generated=999, finished=8)]}
    answers = [*[PLAIN] * 4, answer(500, {"error": {"message": "no"}}), PLAIN]
    lines, _ = measure(tmp_path / "out", pages=pages, answers=answers)
    assert [line.partition("; ")[0] for line in lines] == [
        "warning: out: blocks[0]: 2 requests of others ran on the engine beside 6 of ours",
        "warning: out: requests: 1 of 6 requests failed and are in no time: the service answers 500: no",
    ]


def test_an_engine_without_pages_is_measured_and_all_that_is_unknown_is_said(tmp_path: Path) -> None:
    lines, _ = measure(tmp_path / "out", pages={"/metrics": [answer(404, {})]})
    assert [line.partition("; ")[0] for line in lines] == [
        "warning: out: blocks[0]: no counters, so restarts and cache hits would go unseen: /metrics answers 404",
        "warning: out: arm: nobody said which arm this is, and the engine shows no counters",
    ]
    assert read_run(tmp_path / "out").run.arm is Arm.UNKNOWN


def pair(out: Path, baseline: dict[str, Any], speculative: dict[str, Any], **more: Any) -> list[str]:
    async def both() -> list[str]:
        one = {"/metrics": [metrics(generated=99)], **baseline.pop("pages", VERSION)}
        other = {"/metrics": [metrics(generated=99, k=5)], **speculative.pop("pages", VERSION)}
        async with hostile(pages=one) as a, hostile(pages=other) as b:
            arms = {"A": Arm.BASELINE, "B": Arm.SPECULATIVE}
            usual = {"arms": arms, "design": Design.ABBA, "repeats": 2, **more}
            placed = Placed(a.address, **baseline), Placed(b.address, **speculative)
            return await run(plan(out, **usual), baseline=placed[0], speculative=placed[1])

    return asyncio.run(both())


KNOWN = {"image": "v@sha256:1", "device": {"gpu": "L4", "driver": "575"}, "replicas": 1}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"image": "v@sha256:2"}, "engine.image: v@sha256:2: it is v@sha256:1 in what was measured already"),
        ({"device": {"gpu": "T4", "driver": "575"}}, "engine.device.gpu: T4: it is L4 in what was measured already"),
        (
            {"device": {"gpu": "L4", "driver": "580"}},
            "engine.device.driver: 580: it is 575 in what was measured already",
        ),
        (
            {"pages": {"/version": [answer(200, {"version": "0.24.0"})]}},
            "engine.version: 0.24.0: it is 0.23.0 in what was measured already",
        ),
    ],
)
def test_another_gpu_driver_image_or_version_in_the_second_arm_is_refused(
    tmp_path: Path, change: dict[str, Any], line: str
) -> None:
    assert f"error: {line}" in pair(tmp_path, dict(KNOWN), {**KNOWN, **change})
    assert not (tmp_path / "speculative-c1").exists()


def test_a_pair_of_which_all_is_known_has_nothing_against_it(tmp_path: Path) -> None:
    lines = pair(tmp_path, dict(KNOWN), dict(KNOWN))
    # The pages of this server stand still, as with --disable-log-stats.
    assert {line for line in lines if "generated tokens" not in line} == set()


def test_e63_arms_one_after_the_other_are_flagged(tmp_path: Path) -> None:
    lines = pair(tmp_path, dict(KNOWN), dict(KNOWN), design=Design.AB)
    why = "the arms were measured one after the other without a reversal: a drift looks like an effect"
    line = f"warning: order: ab and ab: {why}; measure both arms in one run with --order abba"
    assert [found for found in lines if "generated tokens" not in found] == [line]


def test_a_null_pair_is_one_engine_twice(tmp_path: Path) -> None:
    async def both() -> list[str]:
        async with hostile(pages={"/metrics": [page("")]}) as state:
            arms = {"A": Arm.BASELINE, "B": Arm.BASELINE}
            return await run(plan(tmp_path, arms=arms, design=Design.ABBA), engine=Placed(state.address))

    asyncio.run(both())
    orders = {
        side: [block.order for block in read_run(tmp_path / f"{side}-c1").run.blocks]
        for side in ("baseline", "speculative")
    }
    assert orders == {"baseline": [0, 3], "speculative": [1, 2]}
