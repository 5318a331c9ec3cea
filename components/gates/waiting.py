"""The one way in which this stack waits: ask a probe until it is done, has failed for good, or the time is over.

A probe looks at the cluster once and answers with one of three outcomes. What was promised decides, never a `Ready`
condition alone: `Ready=True` of a ModelService or ModelDeployment says nothing about a served model.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Event

from components.gates.errors import KubeError

# A cluster's objects change within seconds; a shorter interval would only load the API servers.
POLL_SECONDS = 2.0
# A line of progress is repeated this often although nothing changed, so that a long wait is seen to live.
REPEAT_SECONDS = 30.0
# The newest events tell the story; older ones are in `kubectl get events`.
EVENTS_SHOWN = 3


@dataclass(frozen=True)
class Done:
    """What was promised is there. outputs: what the resource hands on."""

    outputs: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """Not there yet. missing: what is, as short clauses; events: newest last; cause, remedy: what is known of the
    reason, "" if nothing.
    """

    missing: tuple[str, ...]
    events: tuple[str, ...] = ()
    cause: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Failed:
    """Waiting longer cannot help. settle: seconds for which the same cause must be seen before it counts, since some
    heal by themselves; also: what else is wrong, a full line each.
    """

    cause: str
    remedy: str = ""
    settle: float = 0.0
    also: tuple[str, ...] = ()


Outcome = Done | Waiting | Failed
Probe = Callable[[], Outcome]


class GateError(Exception):
    """A gate did not open. str() is one sentence: state, consequence or cause, remedy; a line more for each other
    failure.
    """


@dataclass(frozen=True)
class Run:
    """One call of a gate.

    timeout: seconds; say: shows a line of progress; warn: a line that stays; cancelled: set by Ctrl-C; clock:
    monotonic seconds; tell: shows a text that stays.
    """

    timeout: float
    say: Callable[[str], None]
    warn: Callable[[str], None]
    cancelled: Event
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[str], None] = lambda _: None

    def sleep(self, seconds: float) -> None:
        """Wait, but not longer than until Ctrl-C."""
        self.cancelled.wait(seconds)


def wait(goal: str, probe: Probe, run: Run, *, poll: float = POLL_SECONDS) -> Done:
    """Ask `probe` until it is done. goal: what is waited for, e.g. "InferenceCluster workload".

    Raises GateError when the probe failed, the time is over (with what is missing, the last events and the known
    cause) or the user cancelled.
    """
    start = run.clock()
    last_line, last_said = "", start
    failing, failing_since = "", start
    while True:
        outcome = _ask(probe)
        now = run.clock()
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Failed):
            if outcome.cause != failing:
                failing, failing_since = outcome.cause, now
            if now - failing_since >= outcome.settle:
                first = sentence(f"gave up on {goal}", outcome.cause, outcome.remedy)
                raise GateError("\n".join([first, *map(sentence, outcome.also)]))
            outcome = Waiting((outcome.cause,), remedy=outcome.remedy)
        else:
            failing = ""
        if run.cancelled.is_set():
            raise GateError(
                sentence(
                    f"cancelled while waiting for {goal}", "; ".join(outcome.missing), "`pulumi up` goes on from here"
                )
            )
        if now - start >= run.timeout:
            raise GateError(_timed_out(goal, outcome, run.timeout))
        line = _progress(goal, outcome)
        if line != last_line or now - last_said >= REPEAT_SECONDS:
            run.say(f"{line} ({now - start:.0f} s)")
            last_line, last_said = line, now
        run.sleep(min(poll, max(0.0, start + run.timeout - now)))


def forgiving(probe: Probe, run: Run) -> Probe:
    """A probe for destroy. Pulumi's own switch for clusters that are gone for good counts here too: nothing is left."""

    def forgive() -> Outcome:
        try:
            return probe()
        except KubeError as error:
            if error.status:
                raise
            if os.environ.get("PULUMI_K8S_DELETE_UNREACHABLE") == "true":
                run.warn(f"not waited for what a lost cluster held: {error}")
                return Done()
            return Waiting((str(error),), remedy="PULUMI_K8S_DELETE_UNREACHABLE=true forgets what a lost cluster held")

    return forgive


def sentence(state: str, cause: str = "", remedy: str = "") -> str:
    """`state: cause; remedy` on one line, without a doubled stop."""
    text = state
    if cause:
        text += f": {cause}"
    if remedy:
        text = f"{text.rstrip('.;')}; {remedy}"
    return " ".join(text.split())


def newest(events: Iterable[str]) -> str:
    """The last few events as one clause, "" without any."""
    shown = tuple(events)[-EVENTS_SHOWN:]
    return f"last events: {' | '.join(shown)}" if shown else ""


def _ask(probe: Probe) -> Outcome:
    try:
        return probe()
    except KubeError as error:
        if error.fatal:
            return Failed(str(error), settle=60.0)
        return Waiting((str(error),))


def _progress(goal: str, waiting: Waiting) -> str:
    return sentence(f"waiting for {goal}", "; ".join(waiting.missing))


def _timed_out(goal: str, waiting: Waiting, timeout: float) -> str:
    clauses = ["; ".join(waiting.missing) or "nothing is known of it", newest(waiting.events)]
    if waiting.cause:
        clauses.append(f"known cause: {waiting.cause}")
    state = f"waited {_duration(timeout)} in vain for {goal}"
    return sentence(state, ". ".join(clause for clause in clauses if clause), waiting.remedy)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
