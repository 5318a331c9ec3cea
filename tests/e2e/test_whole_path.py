"""`make local`'s own path with the real vLLM: everything that a newcomer's two commands do after the set-up."""

from __future__ import annotations

import pytest

from tests.e2e.clusters import engine_pods
from tests.e2e.stack import Stack
from tests.e2e.workplace import Workplace

pytestmark = [pytest.mark.sandbox, pytest.mark.engine, pytest.mark.timeout(600)]

# The engine alone takes one to two minutes on two cores.
LOCAL_SECONDS = 420.0


def shown(output: str) -> dict[str, str]:
    """The table that `make local` prints: name -> value."""
    names = ("service_address", "model", "validation", "log_command", "prompt", "completion")
    rows = (line.partition(" ") for line in output.splitlines())
    return {name: value.strip() for name, _, value in rows if name in names}


def test_make_local_serves_the_real_engine_and_again_changes_nothing(stack: Stack, place: Workplace) -> None:
    stack.restore()
    place.sandbox("up", "--engine", "real")
    first = shown(place.sandbox("local", seconds=LOCAL_SECONDS).output)
    assert first["service_address"].endswith("/ml-team/smollm2-135m-spec")
    assert first["validation"].startswith("speculating: Speculation works: declared args, live args, engine log,")
    assert "The quick brown fox jumps over the lazy dog" in first["completion"]
    log = place.shell(first["log_command"]).end().output
    assert "SpeculativeConfig(method='ngram'" in log and "(EngineCore" in log
    (pod,) = engine_pods(place.layout)
    verdict = stack.verdict()
    again = place.sandbox("local")
    assert "(all of it ran already)" in again.output
    assert shown(again.output) == first
    assert stack.verdict() == verdict
    assert [found["metadata"]["uid"] for found in engine_pods(place.layout)] == [pod["metadata"]["uid"]]


def test_down_ends_every_process_and_frees_every_port(stack: Stack, place: Workplace) -> None:
    done = place.sandbox("down")
    assert done.lines[-1].startswith("sandbox is down (")
    assert (place.processes(), place.taken_ports()) == ([], [])
    assert place.sandbox("down").lines == ["sandbox is down (nothing ran)"]
