"""A copy of the checkout with a sandbox of its own, driven with `python -m sandbox` and `. .sandbox/env; pulumi`."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox import procfs
from sandbox.layout import PORTS_USED, Layout

ROOT = Path(__file__).resolve().parents[2]
# For one command; an `up` takes half a minute on two idle cores, and test machines are rarely idle.
COMMAND_SECONDS = 240.0
# From Ctrl-C until the command has saved its state and ended.
END_SECONDS = 60.0
# The last word of a command of the sandbox after Ctrl-C.
INTERRUPTED = "interrupted: the same command goes on from here, `python -m sandbox down` ends it"
# Pulumi's last word, beside what was wrong.
_OF_THE_WHOLE = ("error: update failed", "error: preview failed")


@dataclass(frozen=True)
class Finished:
    """A command that ended. output: standard output and standard error as they came."""

    status: int
    output: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.output.splitlines() if line.strip()]

    @property
    def errors(self) -> list[str]:
        """The lines of errors, each once: Pulumi's under Diagnostics, another command's anywhere."""
        diagnostics = self.output.rpartition("Diagnostics:")[2]
        said = [line.strip() for line in diagnostics.splitlines() if line.strip().startswith("error: ")]
        return [line for line in dict.fromkeys(said) if line not in _OF_THE_WHOLE]


# A shell starts what runs in its background deaf to Ctrl-C, and children inherit that.
_HEARING = ["env", "--default-signal=INT"]


class Running:
    """A command that runs in its own process group, as one started from a terminal does."""

    def __init__(self, argv: list[str], folder: Path, env: Mapping[str, str], log: Path) -> None:
        self.argv, self._log, self._began = argv, log, time.monotonic()
        with log.open("wb") as output:
            self.child = subprocess.Popen(
                [*_HEARING, *argv], cwd=folder, env=dict(env), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def until(self, text: str, seconds: float = COMMAND_SECONDS) -> None:
        """Wait until it has printed a text."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            assert self.child.poll() is None, f"ended without {text!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {text!r} within {seconds:.0f} s:\n{self.output}"
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Ctrl-C: SIGINT to the whole process group."""
        os.killpg(self.child.pid, signal.SIGINT)

    def end(self, seconds: float = COMMAND_SECONDS) -> Finished:
        """Wait for its end."""
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {seconds:.0f} s:\n{self.output}") from None
        return Finished(self.child.returncode, self.output, time.monotonic() - self._began)

    def kill(self) -> None:
        """Kill -9 of everything it started in its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


@dataclass(frozen=True)
class Workplace:
    """folder: the copy; layout: of its sandbox; env: of every command."""

    folder: Path
    layout: Layout
    env: Mapping[str, str]
    logs: Path
    started: list[Running] = field(default_factory=list)

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> Running:
        log = self.logs / f"{len(self.started):03}.log"
        running = Running(list(argv), self.folder, {**self.env, **(env or {})}, log)
        self.started.append(running)
        return running

    def python(self, *arguments: str, env: Mapping[str, str] | None = None) -> Running:
        return self.start(".venv/bin/python", *arguments, env=env)

    def sandbox(self, *arguments: str, seconds: float = COMMAND_SECONDS) -> Finished:
        """`python -m sandbox ...`, which must succeed."""
        done = self.python("-m", "sandbox", *arguments).end(seconds)
        assert done.status == 0, done.output
        return done

    def shell(self, command: str) -> Running:
        """A command line in the sandbox's shell."""
        return self.start("bash", "-c", f". .sandbox/env\n{command}")

    def pulumi(self, *arguments: str) -> Running:
        """Plain `pulumi` in the sandbox's shell."""
        line = '. .sandbox/env\nexec pulumi --non-interactive --color=never "$@"'
        return self.start("bash", "-c", line, "pulumi", *arguments)

    def processes(self) -> list[str]:
        """`<pid> <command line>` of what runs for this sandbox: its range of ports is handed on to everything."""
        base = self.env["SANDBOX_PORT_BASE"]
        alive = [item.pid for item in procfs.stats() if item.alive]
        return [f"{pid} {procfs.command(pid)}" for pid in alive if procfs.environ(pid).get("SANDBOX_PORT_BASE") == base]

    def taken_ports(self) -> list[int]:
        return [port for port in self.layout.ports.values() if not _free("127.0.0.1", port)]


@contextlib.contextmanager
def workplace(folder: Path) -> Iterator[Workplace]:
    """A copy of the checkout (what git tracks or would), its environment linked, on a free range of ports.

    At the end every command is ended and the sandbox is down, whatever happened.
    """
    copy = folder / "checkout"
    copy_checkout(copy)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    (folder / "logs").mkdir()
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "SANDBOX_", "KUBECONFIG"))
    }
    env = {**kept, "SANDBOX_PORT_BASE": str(free_port_base()), "PYTHONDONTWRITEBYTECODE": "1"}
    layout = replace(Layout.from_env({**env, "SANDBOX_HOME": str(copy / ".sandbox")}), repository=copy)
    made = Workplace(copy, layout, env, folder / "logs")
    try:
        yield made
    finally:
        for running in made.started:
            if running.child.poll() is None:
                running.kill()
        made.python("-m", "sandbox", "down", "--delete").end()


def copy_checkout(target: Path) -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, os.fsdecode(listing).split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def free_port_base() -> int:
    """The first of a free range of ports; where it lies is random, since other test runs look for one too."""
    bases = list(range(22000, 32000, PORTS_USED))
    random.shuffle(bases)
    for base in bases:
        if all(_free("127.0.0.1", port) for port in range(base, base + PORTS_USED)):
            return base
    raise AssertionError("no free range of ports")


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def eventually(probe: Callable[[], object], seconds: float = END_SECONDS) -> None:
    """Wait until a probe answers true."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s; last answer: {found!r}"
        time.sleep(0.1)
