"""Supervision of real processes: restarts, crashes, reused pids, taken ports, two commands at once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from engine.findings import Problems
from sandbox import procfs, state, supervisor
from sandbox.layout import Layout
from sandbox.processes import MARK_HOME, MARK_NAME, Process, Record, end_marked, marked, record_path, records, start

SLEEP = ("/bin/sleep", "1000")
# Ignores SIGTERM and has a child in its group.
STUBBORN = ("/bin/sh", "-c", 'trap "" TERM; sleep 1000 & while :; do sleep 0.1; done')


def quiet(_: str) -> None:
    """A `say` for tests that do not look at the progress."""


def listener(port: int) -> tuple[str, ...]:
    program = f"import socket,time; s=socket.create_server(('127.0.0.1',{port})); time.sleep(1000)"
    return (sys.executable, "-c", program)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until_gone(pid: int) -> None:
    for _ in range(200):
        found = procfs.stat(pid)
        if found is None or not found.alive:
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} still runs")


def test_up_starts_once_and_leaves_a_running_process_alone(layout: Layout) -> None:
    process = Process("a", SLEEP)
    assert supervisor.up(layout, [process], quiet) == ["a"]
    first = records(layout)["a"]
    assert first.running
    assert supervisor.up(layout, [process], quiet) == []
    assert records(layout)["a"] == first


@pytest.mark.parametrize("change", ["argv", "env", "file"])
def test_up_restarts_only_what_changed(layout: Layout, tmp_path: Path, change: str) -> None:
    config = tmp_path / "config"
    config.write_text("1")
    process, other = Process("a", SLEEP, files=(config,)), Process("b", SLEEP)
    supervisor.up(layout, [process, other], quiet)
    before = records(layout)
    if change == "file":
        config.write_text("2")
    changed = {"argv": replace(process, argv=("/bin/sleep", "999")), "env": replace(process, env={"X": "1"})}.get(
        change, process
    )
    assert supervisor.up(layout, [changed, other], quiet) == ["a"]
    after = records(layout)
    assert after["a"].pid != before["a"].pid
    assert not before["a"].running
    assert after["b"] == before["b"]


def test_a_process_starts_only_when_what_it_comes_after_is_ready(layout: Layout) -> None:
    port = layout.port_base
    late = Process("late", SLEEP, after=("server",), ready=lambda: answers(port))
    server = Process("server", listener(port), ready=lambda: answers(port), ports=(port,))
    supervisor.up(layout, [late, server], quiet)
    assert records(layout)["late"].started >= records(layout)["server"].started


def test_what_was_killed_is_started_again_and_nothing_else(layout: Layout) -> None:
    processes = [Process("a", SLEEP), Process("b", SLEEP)]
    supervisor.up(layout, processes, quiet)
    before = records(layout)
    os.kill(before["a"].pid, signal.SIGKILL)
    wait_until_gone(before["a"].pid)
    assert supervisor.up(layout, processes, quiet) == ["a"]
    assert records(layout)["b"] == before["b"]


def test_down_ends_the_whole_group_even_of_one_that_ignores_sigterm_and_is_idempotent(layout: Layout) -> None:
    supervisor.up(layout, [Process("a", STUBBORN, stop_seconds=0.3)], quiet)
    group = records(layout)["a"].pid
    time.sleep(0.2)
    assert supervisor.down(layout, quiet) == ["a"]
    assert not [item for item in procfs.stats() if item.alive and item.group == group]
    assert supervisor.down(layout, quiet) == []
    assert list(layout.processes.iterdir()) == []


def test_down_ends_dependents_before_what_they_need(layout: Layout) -> None:
    said: list[str] = []
    supervisor.up(layout, [Process("api", SLEEP, after=("etcd",)), Process("etcd", SLEEP)], quiet)
    supervisor.down(layout, said.append)
    assert said == ["stopped api", "stopped etcd"]


@pytest.mark.parametrize("field", ["started", "boot"])
def test_a_reused_pid_is_neither_taken_for_ours_nor_killed(layout: Layout, field: str) -> None:
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        found = procfs.stat(stranger.pid)
        assert found
        true = Record("a", stranger.pid, found.started, procfs.boot_id(), SLEEP, "", (), 1)
        stale = replace(true, **{field: {"started": found.started - 1, "boot": "another boot"}[field]})  # type: ignore[arg-type]
        state.write(record_path(layout, "a"), json.dumps(asdict(stale)))
        assert supervisor.down(layout, quiet) == []
        assert stranger.poll() is None
        assert true.running
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_that_ends_at_its_start_is_one_line_with_its_last_words(layout: Layout) -> None:
    process = Process(
        "bad", ("/bin/sh", "-c", "echo loading; echo cannot open database >&2; exit 3"), ready=lambda: False
    )
    with pytest.raises(Problems) as raised:
        supervisor.up(layout, [process], quiet)
    assert str(raised.value) == (
        f"error: process bad: ended at its start: cannot open database; see {layout.log('bad')}"
    )


def test_a_process_that_never_answers_is_one_line(layout: Layout) -> None:
    with pytest.raises(Problems) as raised:
        supervisor.up(layout, [Process("mute", SLEEP, ready=lambda: False, ready_seconds=0.2)], quiet)
    assert "process mute: runs but does not answer after 0 s" in str(raised.value)


def test_after_a_failed_start_the_next_up_completes(layout: Layout) -> None:
    good, bad = Process("good", SLEEP), Process("bad", ("/bin/false",), after=("good",), ready=lambda: False)
    with pytest.raises(Problems):
        supervisor.up(layout, [good, bad], quiet)
    kept = records(layout)["good"]
    assert supervisor.up(layout, [good, Process("bad", SLEEP)], quiet) == ["bad"]
    assert records(layout)["good"] == kept


def test_two_commands_at_once_give_the_second_one_line(layout: Layout) -> None:
    program = (
        "import sys\nfrom sandbox.layout import Layout\nfrom sandbox.state import locked\n"
        "with locked(Layout.from_env(), 'python -m sandbox up'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    env = {**os.environ, **layout.env()}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=-1, stdout=-1, env=env, cwd=layout.repository
    ) as first:
        assert first.stdout
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(Problems) as raised, state.locked(layout, "python -m sandbox down"):
            raise AssertionError("both commands hold the lock")
        first.kill()
    assert str(raised.value) == (
        f"error: {layout.home}: `python -m sandbox up` (process {first.pid}) is changing this sandbox; "
        "wait until it has ended"
    )
    with state.locked(layout, "python -m sandbox down"):
        pass  # a killed command leaves no lock behind


def test_a_starter_killed_before_the_record_is_written_leaves_no_process(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object, **__: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "write", no_space)
    with pytest.raises(OSError, match="No space"):
        start(layout, Process("a", SLEEP))
    for _ in range(100):
        if not marked(layout):
            break
        time.sleep(0.02)
    assert marked(layout) == {}


def test_no_space_left_is_one_line(layout: Layout) -> None:
    with pytest.raises(Problems) as raised, state.disk_full_as_problem(layout):
        raise OSError(28, "No space left on device", "/somewhere/db")
    assert str(raised.value).startswith("error: /somewhere/db: no space left on this file system; free some space")
    with pytest.raises(Problems, match=r"MiB free, the sandbox needs \d+ MiB; free some space"):
        state.need_space(layout.home / "not" / "there" / "yet", 2**60, "the sandbox")


@pytest.mark.parametrize("remove_state", [False, True])
def test_what_a_killed_process_left_in_other_sessions_is_ended(layout: Layout, *, remove_state: bool) -> None:
    # As a runner does: a container in a session of its own, which outlives it.
    program = f"import subprocess,time; subprocess.Popen({list(SLEEP)!r}, start_new_session=True); time.sleep(1000)"
    supervisor.up(layout, [Process("runner", (sys.executable, "-c", program))], quiet)
    for _ in range(250):
        if len(marked(layout)) == 2:
            break
        time.sleep(0.02)
    runner = records(layout)["runner"].pid
    (container,) = set(marked(layout)) - {runner}
    if remove_state:
        record_path(layout, "runner").unlink()
    else:
        os.kill(runner, signal.SIGKILL)
        wait_until_gone(runner)
    supervisor.down(layout, quiet)
    wait_until_gone(container)
    wait_until_gone(runner)


def test_another_sandboxs_processes_are_not_touched(layout: Layout, tmp_path: Path) -> None:
    env = {MARK_HOME: str(tmp_path / "other"), MARK_NAME: "etcd"}
    with subprocess.Popen(SLEEP, env=env, start_new_session=True) as other:
        assert marked(layout) == {}
        supervisor.down(layout, quiet)
        assert other.poll() is None
        end_marked([other.pid])


def test_writing_is_atomic_and_keeps_an_equal_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert state.write(path, "1")
    inode = path.stat().st_ino
    assert not state.write(path, "1")
    assert path.stat().st_ino == inode
    assert path.stat().st_mode & 0o777 == 0o600
    assert state.write(path, "2")
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_environment_of_a_process_is_named_not_inherited(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/someone/.kube/config")
    supervisor.up(layout, [Process("a", SLEEP, env={"X": "1"})], quiet)
    env: dict[str, str] = {}
    while not env:  # empty for the moment in which the gate becomes the program
        env = procfs.environ(records(layout)["a"].pid)
    assert env["X"] == "1"
    assert env["SANDBOX_HOME"] == str(layout.home)
    assert "KUBECONFIG" not in env
