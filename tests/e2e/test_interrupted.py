"""Ctrl-C, `up` twice at once and `kill -9`: nothing is left behind, and the same command goes on.

The next good `up` starts from the state that the interruption has left.
"""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.e2e.stack import Stack, faulty
from tests.e2e.workplace import END_SECONDS, INTERRUPTED, Finished, Workplace, eventually
from tests.sandbox.kubectl import Kubectl

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(400)]

WAITING = "is Running and not ready yet"
LOCKED = "error: the stack is currently locked by 1 lock(s)"


def locks(place: Workplace) -> list[str]:
    return [path.name for path in (place.layout.pulumi_backend / ".pulumi/locks").rglob("*.json")]


def pulumis(place: Workplace) -> list[str]:
    """The CLI and its plugins, as far as they run for this sandbox."""
    return [line for line in place.processes() if "pulumi" in line or "_host.py" in line or "components.gates" in line]


def nothing_left(place: Workplace) -> None:
    """No lock and no process of Pulumi; its plugins end a moment after it."""
    assert locks(place) == []
    eventually(lambda: not pulumis(place))


def interrupted(done: Finished) -> None:
    assert "Traceback" not in done.output, done.output
    assert (done.status, done.lines[-1]) == (130, INTERRUPTED), done.output


def test_ctrl_c_while_things_are_made_is_gone_on_from(stack: Stack, place: Workplace) -> None:
    stack.destroy()
    stack.configure("qwen3-8b-spec")
    running = place.python("-m", "sandbox", "local")
    running.until("InferenceCluster platform-cluster creating")
    running.interrupt()
    interrupted(running.end(END_SECONDS))
    nothing_left(place)
    assert "validation       speculating" in place.sandbox("local").output


def test_after_kill_9_of_a_plain_pulumi_the_documented_commands_recover(stack: Stack, place: Workplace) -> None:
    """The validation waits for a slow answer; nothing else works on the stack meanwhile."""
    stack.configure(faulty(place, stall_seconds=120))
    running = stack.start_up()
    running.until("waiting for the validation Job: it runs")
    (lock,) = (place.layout.pulumi_backend / ".pulumi/locks").rglob("*.json")
    beside = place.python("-m", "sandbox", "local").end()
    assert (beside.status, beside.errors) == (
        1,
        [
            f"error: stack local: another pulumi (pid {running.child.pid}) is working on it: {lock}; "
            "wait until it ends, or end it and run this again"
        ],
    )
    assert stack.failing_up().errors[0].startswith(LOCKED)
    os.kill(running.child.pid, signal.SIGKILL)
    running.end()
    eventually(lambda: not pulumis(place))
    assert stack.failing_up().errors[0].startswith(LOCKED)
    stack.configure("qwen3-8b-spec")
    stack("cancel", "--yes")
    stack("refresh", "--stack", "local", "--yes", "--skip-preview", "--clear-pending-creates")
    stack.up()
    verdict = stack.verdict()
    assert verdict["ok"] is True
    jobs = Kubectl(place.layout).names("jobs", "--namespace=speculation-validation")
    assert jobs == [f"speculation-validation-{verdict['run']}"]
    nothing_left(place)


def test_ctrl_c_ends_the_wait_of_make_local_and_a_second_one_is_refused(stack: Stack, place: Workplace) -> None:
    stack.configure(faulty(place, hang_loading=True))
    first = place.python("-m", "sandbox", "local")
    first.until(WAITING)
    second = place.python("-m", "sandbox", "local").end()
    holder = f"`python -m sandbox local` (process {first.child.pid})"
    line = f"error: {place.layout.home}: {holder} is changing this sandbox; wait until it has ended"
    assert (second.status, second.lines) == (1, [line])
    first.interrupt()
    done = first.end(END_SECONDS)
    interrupted(done)
    assert [line for line in done.errors if "cancelled while waiting for the replicas of ml-team/" in line], done.output
    nothing_left(place)


def test_after_kill_9_of_pulumi_make_local_recovers_by_itself(stack: Stack, place: Workplace) -> None:
    """It is killed while it makes the deployment, after it has deleted the one before."""
    stack.configure("qwen3-8b-spec")
    running = place.python("-m", "sandbox", "local")
    running.until("ModelDeployment model-deployment creating")
    (lock,) = locks(place)
    pid = next(int(line.split()[0]) for line in pulumis(place) if re.search(r"^\d+ pulumi up ", line))
    os.kill(pid, signal.SIGKILL)
    assert running.end().status != 0
    assert locks(place) == [lock]
    assert "validation       speculating" in place.sandbox("local").output
    nothing_left(place)
    stack("preview", "--stack", "local", "--expect-no-changes")
