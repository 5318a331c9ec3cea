"""Engines that do not do what the recipe declares (the fake engine's faults): `up` fails with the reason.

Each `up` here goes on from where the one before has failed.
"""

# ruff: noqa: E501 - the lines stand as they are printed

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.clusters import engine_pods, inventory
from tests.e2e.stack import Stack, faulty
from tests.e2e.workplace import Workplace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(400)]

# Replicas may take 30 minutes by default; a wait that cannot succeed ends long before.
EARLY = 150.0
WITNESSES = ("declared_args", "live_args", "engine_log", "metrics", "behaviour")
NOT_FOUND = 'answers 404 Not Found: {"detail":"Not Found"}'


@dataclass(frozen=True)
class Wrong:
    """A verdict that fails `up`: what was said of it, and the readings that are not "on"."""

    verdict: str
    sentence: str
    readings: dict[str, str]


OFF = Wrong(
    "declared-but-off",
    "The recipe declares speculation and the engine runs without it: engine log: speculative_config=None; metrics: no counters of speculation; 73 tokens generated",
    {"engine_log": "off", "metrics": "off", "behaviour": "off"},
)
INERT = Wrong(
    "on-but-inert",
    "Speculation is on and does nothing: 0 drafts, 0 of 0 draft tokens accepted over 73 generated tokens",
    {"metrics": "inert", "behaviour": "off"},
)
UNKNOWN = Wrong(
    "cannot-tell",
    f"Too little could be seen to say whether speculation works; not known from metrics (the counters of speculation are there, but nothing was generated while they were watched) and behaviour (edit: ADDRESS/v1/chat/completions {NOT_FOUND})",
    {"metrics": "unknown", "behaviour": "unknown"},
)
CORRUPT = Wrong(
    "corrupt-output",
    "The answer is not sound: edit: the completion is empty",
    {"metrics": "inert", "behaviour": "corrupt"},
)


def address(place: Workplace) -> str:
    return f"http://127.0.0.1:{place.layout.control_plane_gateway_port}/ml-team/qwen3-8b-spec"


def said(stack: Stack, place: Workplace) -> Wrong:
    """What a failing `up` prints as its only error, and what `stack output validation` shows after it."""
    (line,) = stack.failing_up().errors
    sentence = line.replace(address(place), "ADDRESS").removeprefix("error: ").partition("; `pulumi stack output")[0]
    verdict = stack.verdict()
    assert verdict["ok"] is False
    assert line.endswith("`pulumi stack output validation` shows the witnesses; the next `pulumi up` validates again")
    readings = {witness["name"]: witness["reading"] for witness in verdict["witnesses"]}
    assert tuple(readings) == WITNESSES
    return Wrong(verdict["verdict"], sentence, {name: found for name, found in readings.items() if found != "on"})


def test_an_engine_that_exits_at_start_ends_the_wait_with_its_own_last_error(stack: Stack, place: Workplace) -> None:
    stack.configure(faulty(place, exit="gated_model"))
    failed = stack.failing_up()
    (pod,) = engine_pods(place.layout)
    assert failed.errors == [
        f"error: gave up on the replicas of ml-team/qwen3-8b-spec: engine in pod {pod['metadata']['name']} exits with code 1: OSError: You are trying to access a gated repo. (the model is gated and the token has no access to it); accept the model's licence on its hub page and give a token of that account as HF_TOKEN from a Secret"
    ]
    assert failed.seconds < EARLY


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ({"never_draft": True}, INERT),
        ({"status": {"/v1/chat/completions": 404}}, UNKNOWN),
        ({"answer": "empty"}, CORRUPT),
    ],
    ids=["never drafts", "answers 404", "empty completion"],
)
def test_a_wrong_verdict_fails_up_and_stays_readable(
    stack: Stack, place: Workplace, fault: dict[str, Any], wrong: Wrong
) -> None:
    stack.configure(faulty(place, **fault))
    assert said(stack, place) == wrong


def test_a_wrong_verdict_is_asked_for_again_until_it_is_right(stack: Stack, place: Workplace) -> None:
    stack.configure(faulty(place, ignore_speculation=True))
    runs = []
    for _ in range(2):
        assert said(stack, place) == OFF
        runs.append(stack.verdict()["run"])
    assert runs[0] != runs[1]
    stack.configure("qwen3-8b-spec")
    stack.up()
    assert (stack.verdict()["verdict"], stack.verdict()["ok"]) == ("speculating", True)


def test_a_service_that_answers_404_to_everything_fails_the_gate(stack: Stack, place: Workplace) -> None:
    stack.configure(faulty(place, status={"/v1/models": 404}), timeouts={"service": "10s"})
    assert stack.failing_up().errors == [
        f"error: waited 10 s in vain for ModelService ml-team/qwen3-8b-spec: {address(place)}/v1/models answers 404 although routing is ready: a gateway on the way has no route for it, or the engine does not serve it; `kubectl get httproutes -A` on both clusters shows which gateway did not accept its route"
    ]


def test_destroy_after_a_failed_up_leaves_nothing_in_either_cluster(
    stack: Stack, place: Workplace, untouched: set[str]
) -> None:
    """The engine runs, its route leads nowhere, and a run of before has validated it."""
    assert engine_pods(place.layout)
    stack.destroy()
    assert inventory(place.layout) == untouched
    assert stack.exported()["deployment"].get("resources", []) == []
