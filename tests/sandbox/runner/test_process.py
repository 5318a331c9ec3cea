"""Containers under the real bubblewrap."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sandbox import procfs
from sandbox.runner import filesystem
from sandbox.runner.logs import CriLog
from sandbox.runner.process import ContainerProcess, Exit, Spec, check

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(check() != "", reason=check())


def shell(script: str, *mounts: filesystem.Mount, env: dict[str, str] | None = None) -> Spec:
    return Spec(
        argv=["sh", "-c", script],
        env={"PATH": "/usr/bin:/bin", **(env or {})},
        options=filesystem.arguments(mounts),
        marks={"MARK": "of the processes around it"},
        hostname="engine-0",
    )


def ended(spec: Spec, act: Callable[[ContainerProcess], Awaitable[Exit]] | None = None) -> tuple[Exit, str]:
    async def run() -> tuple[Exit, str]:
        process = await ContainerProcess.start(spec, None)
        result = await (act(process) if act else process.wait())
        return result, process.output.decode()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 137", 137)]
)
def test_the_exit_code_of_a_container_is_that_of_its_command(script: str, code: int) -> None:
    result, _ = ended(shell(script))
    assert (result.code, result.setup_error) == (code, "")


def test_a_container_sees_its_mounts_its_environment_and_nothing_of_the_machines_writable(tmp_path: Path) -> None:
    source = tmp_path / "volume"
    source.mkdir()
    (source / "token").write_text("secret")
    message = tmp_path / "termination-log"
    message.touch()
    mounts = [
        filesystem.Mount(source, Path("/var/run/secrets/kubernetes.io/serviceaccount")),
        filesystem.Mount(source, Path("/opt/sandbox-test/validation"), read_only=False),
        filesystem.Mount(message, Path("/dev/termination-log"), read_only=False),
        filesystem.Mount(None, Path("/dev/shm")),
    ]
    script = (
        "cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo; echo $$; hostname; env | sort;"
        "echo new > /opt/sandbox-test/validation/made; echo why > /dev/termination-log; echo x > /dev/shm/x;"
        "touch /usr/x 2>/dev/null || echo read-only; touch /tmp/x && ls /tmp; ls /proc | grep -c '^[0-9]'"
    )
    result, output = ended(shell(script, *mounts, env={"A": "b c"}))
    assert result.code == 0
    expected = ["secret", "2", "engine-0", "A=b c", "PATH=/usr/bin:/bin", "PWD=/", "read-only", "x"]
    *lines, processes = output.splitlines()
    assert lines == expected
    assert int(processes) <= 5, "only the container's own processes are to be seen"
    assert ((source / "made").read_text(), message.read_text()) == ("new\n", "why\n")
    assert not Path("/opt/sandbox-test").exists()


def test_a_container_gets_time_to_end_and_no_more() -> None:
    async def terminate(process: ContainerProcess) -> Exit:
        while b"ready" not in process.output:
            await asyncio.sleep(0.01)
        return await process.terminate(0.3)

    polite = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    result, output = ended(shell(polite), terminate)
    assert (result.code, output) == (5, "ready\nbye\n")
    result, _ = ended(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"), terminate)
    assert result.code == 137
    # A command without a handler ends too: it is not its namespace's first process.
    result, _ = ended(shell("echo ready; exec sleep 20"), terminate)
    assert result.code == 143


def test_children_end_with_their_container() -> None:
    async def wait(process: ContainerProcess) -> Exit:
        result = await process.wait()
        assert _sleepers("31.4159") == []
        return result

    result, _ = ended(shell("setsid sleep 31.4159 & exit 0"), wait)
    assert result.code == 0


def test_what_could_not_be_set_up_says_why(tmp_path: Path) -> None:
    spec = shell("true")
    absent = Spec(["/no/such/program"], spec.env, spec.options, spec.marks)
    result, _ = ended(absent)
    assert result.setup_error == "bwrap: execvp /no/such/program: No such file or directory"
    nowhere = Spec(["true"], spec.env, spec.options, spec.marks, working_dir="/nowhere")
    result, _ = ended(nowhere)
    assert result.setup_error == "bwrap: Can't chdir to /nowhere: No such file or directory"


def test_output_is_logged_as_it_comes(tmp_path: Path) -> None:
    async def run() -> str:
        path = tmp_path / "0.log"
        process = await ContainerProcess.start(shell("echo out; echo err >&2; sleep 20"), CriLog(path))
        while len(path.read_text().splitlines()) < 2:
            await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
        return path.read_text()

    assert sorted(line.split(" ", 1)[1] for line in asyncio.run(run()).splitlines()) == ["stderr F err", "stdout F out"]


def test_secrets_of_the_environment_are_in_no_process_list() -> None:
    async def look(process: ContainerProcess) -> Exit:
        while b"ready" not in process.output:
            await asyncio.sleep(0.01)
        commands = [procfs.command(item.pid) for item in procfs.stats()]
        assert not any("hf_very_secret" in command for command in commands)
        return await process.terminate(0.3)

    _, output = ended(shell("echo $TOKEN ready; exec sleep 20", env={"TOKEN": "hf_very_secret"}), look)
    assert output.startswith("hf_very_secret")


RUNNER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.sandbox.runner.test_process import shell
from sandbox.runner.process import ContainerProcess
async def main():
    await ContainerProcess.start(shell("trap '' TERM; setsid sleep 27.1828 & sleep 27.1828"), None)
    await asyncio.sleep(30)
asyncio.run(main())
"""


def test_no_container_survives_a_killed_runner() -> None:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER.format(root=str(ROOT))])
    _until(lambda: len(_sleepers("27.1828")) == 2)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    _until(lambda: _sleepers("27.1828") == [])


def _sleepers(seconds: str) -> list[int]:
    """Living processes of that very sleep."""
    return [item.pid for item in procfs.stats() if item.alive and procfs.command(item.pid) == f"sleep {seconds}"]


def _until(done: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, os.popen("ps ax").read()
        time.sleep(0.02)
