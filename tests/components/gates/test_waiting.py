"""The one waiting mechanism: done, failed for good, out of time with what is missing and why, cancelled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from components.gates.errors import KubeError
from components.gates.waiting import Done, Failed, GateError, Outcome, Probe, Waiting, forgiving, wait
from tests.components.gates.api import Clock


def probe_of(*outcomes: Outcome | Exception) -> Probe:
    """Gives the outcomes one after the other, the last one for ever."""
    left: Iterator[Outcome | Exception] = iter(outcomes)
    last: list[Outcome | Exception] = [outcomes[-1]]

    def probe() -> Outcome:
        outcome = next(left, last[0])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return probe


def test_it_returns_what_the_probe_found() -> None:
    clock = Clock()
    assert wait("x", probe_of(Waiting(("a",)), Done({"k": 1})), clock.run()) == Done({"k": 1})
    assert (clock.now, clock.said) == (2.0, ["waiting for x: a (0 s)"])


FAILURES = [
    pytest.param(
        [Failed("it cannot", "do this")],
        0.0,
        "gave up on x: it cannot; do this",
        id="a terminal cause ends the wait at once",
    ),
    pytest.param(
        [Failed("no claim", "add a GPU", settle=30.0)],
        30.0,
        "gave up on x: no claim; add a GPU",
        id="a cause that also shows in passing counts when it lasts",
    ),
    pytest.param(
        [Failed("a", settle=4.0), Failed("b", settle=4.0), Failed("a", settle=4.0)],
        8.0,
        "gave up on x: a",
        id="another cause in between starts the count anew",
    ),
    pytest.param(
        [
            Waiting(
                ("r is 0 of 1", "p is Pending"), ("E1: one", "E2: two", "E3: three", "E4: four"), "no node", "add one"
            )
        ],
        60.0,
        "waited 60 s in vain for x: r is 0 of 1; p is Pending. last events: E2: two | E3: three | E4: four. known "
        "cause: no node; add one",
        id="out of time, with what is missing, the last events, the cause and the remedy",
    ),
    pytest.param(
        [Waiting(())], 60.0, "waited 60 s in vain for x: nothing is known of it", id="out of time, and nothing is known"
    ),
    pytest.param(
        [KubeError("https://a does not answer within 10 s")],
        60.0,
        "waited 60 s in vain for x: https://a does not answer within 10 s",
        id="an API server that does not answer is waited for",
    ),
    pytest.param(
        [KubeError("https://a does not accept the kubeconfig's credentials (401)", status=401, fatal=True)],
        60.0,
        "gave up on x: https://a does not accept the kubeconfig's credentials (401)",
        id="one that refuses for good is not, after a minute",
    ),
]


@pytest.mark.parametrize(("outcomes", "seconds", "message"), FAILURES)
def test_it_fails_with_one_sentence(outcomes: list[Outcome | Exception], seconds: float, message: str) -> None:
    clock = Clock()
    with pytest.raises(GateError) as raised:
        wait("x", probe_of(*outcomes), clock.run(60.0 if "401" not in message else 600.0))
    assert (str(raised.value), clock.now) == (message, seconds)


def test_a_cause_that_heals_does_not_end_the_wait() -> None:
    clock = Clock()
    assert wait("x", probe_of(Failed("no claim", settle=5.0), Waiting(("a",)), Done()), clock.run()) == Done()


def test_ctrl_c_ends_it_and_says_what_it_waited_for() -> None:
    clock = Clock(cancel_at=5.0)
    with pytest.raises(GateError) as raised:
        wait("x", probe_of(Waiting(("r is 0 of 1",))), clock.run())
    assert str(raised.value) == "cancelled while waiting for x: r is 0 of 1; `pulumi up` goes on from here"
    assert clock.now == 6.0


def test_progress_is_said_on_each_change_and_at_least_every_half_minute() -> None:
    clock = Clock()
    outcomes: list[Outcome | Exception] = [
        Waiting(("a",)),
        Waiting(("a",)),
        Waiting(("b",)),
        *[Waiting(("b",))] * 20,
        Done(),
    ]
    wait("x", probe_of(*outcomes), clock.run(600.0))
    assert clock.said == ["waiting for x: a (0 s)", "waiting for x: b (4 s)", "waiting for x: b (34 s)"]


def test_on_destroy_a_cluster_that_is_gone_for_good_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = KubeError("https://a is not reachable (connection refused)")
    clock = Clock()
    with pytest.raises(GateError) as raised:
        wait("the end of x", forgiving(probe_of(lost), clock.run()), clock.run(4.0))
    assert str(raised.value) == (
        "waited 4 s in vain for the end of x: https://a is not reachable (connection refused); "
        "PULUMI_K8S_DELETE_UNREACHABLE=true forgets what a lost cluster held"
    )
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    assert wait("the end of x", forgiving(probe_of(lost), clock.run()), clock.run()) == Done()
    assert clock.warned == ["not waited for what a lost cluster held: https://a is not reachable (connection refused)"]
