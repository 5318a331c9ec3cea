"""One container as a process under bubblewrap: started, its output logged, signalled, waited for.

Three processes: bubblewrap outside (it dies with the runner: PDEATHSIG), an init inside the container's pid namespace
(its death ends everything in there), the command. The first two carry the sandbox's marks in their environment, so that
whoever looks for what a crash left finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.findings import Problems
from sandbox.binaries import bubblewrap
from sandbox.runner.logs import CriLog, Stream

_CHUNK = 64 * 1024
# Between the end of a container and the end of its output (seconds): everything in its pid namespace is dead by then.
_DRAIN_SECONDS = 5


@dataclass(frozen=True)
class Exit:
    """How a command ended. code: 128 + n for signal n, as container runtimes say it."""

    code: int
    at: datetime
    # Set when the command never ran: bubblewrap could not set the container up.
    setup_error: str = ""


@dataclass(frozen=True)
class Spec:
    """What to run. options: bubblewrap's arguments; marks: environment of the processes around the command."""

    argv: Sequence[str]
    env: Mapping[str, str]
    options: Sequence[str]
    marks: Mapping[str, str]
    working_dir: str = "/"
    hostname: str = "localhost"

    def arguments(self) -> list[str]:
        """All arguments. They go through a file descriptor: a process list is no place for an environment."""
        variables = [word for name, value in self.env.items() for word in ("--setenv", name, value)]
        return [
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", self.hostname, "--die-with-parent"),
            *self.options,
            *("--chdir", self.working_dir, "--clearenv"),
            *variables,
        ]


def check() -> str:
    """Can containers run on this machine? "" or one line that says why not."""
    try:
        command = [str(bubblewrap()), "--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError, Problems) as error:
        return str(error)
    if result.returncode == 0:
        return ""
    why = result.stderr.strip().splitlines()[-1:] or [f"exit code {result.returncode}"]
    return (
        f"bubblewrap cannot make a container here ({why[0]}); allow unprivileged user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
    )


class ContainerProcess:
    """A started container."""

    def __init__(self, process: asyncio.subprocess.Process, status: asyncio.StreamReader, log: CriLog | None) -> None:
        self._process = process
        self._init_pid: int | None = None
        self._exit_code: int | None = None
        self._log = log
        self._ended = asyncio.Event()
        self.output = b""
        self.exit: Exit | None = None
        self._task = asyncio.create_task(self._watch(status))

    @classmethod
    async def start(cls, spec: Spec, log: CriLog | None) -> ContainerProcess:
        """Start a container; without a log its output is kept (exec probes). OSError when nothing could be started."""
        arguments = os.memfd_create("bubblewrap-arguments")
        status_read, status_write = os.pipe()
        try:
            os.write(arguments, b"".join(os.fsencode(word) + b"\0" for word in spec.arguments()))
            os.lseek(arguments, 0, os.SEEK_SET)
            process = await asyncio.create_subprocess_exec(
                str(bubblewrap()),
                *("--args", str(arguments), "--json-status-fd", str(status_write), "--", *spec.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(spec.marks),
                pass_fds=(arguments, status_write),
                start_new_session=True,
                limit=_CHUNK,
            )
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(arguments)
            os.close(status_write)
        return cls(process, await _reader(status_read), log)

    @property
    def running(self) -> bool:
        return self.exit is None

    async def wait(self) -> Exit:
        await self._ended.wait()
        assert self.exit is not None
        return self.exit

    async def terminate(self, grace: float) -> Exit:
        """SIGTERM to the command, SIGKILL to the whole container when the grace period (seconds) is over."""
        if self.running:
            self._signal_command(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    def kill(self) -> None:
        """End the container now."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init_pid or self._process.pid, signal.SIGKILL)

    def _signal_command(self, number: signal.Signals) -> None:
        command = _first_child(self._init_pid) if self._init_pid else None
        if command is None:
            # Still being set up (or just ended): there is no command yet that could do better.
            self.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, number)

    async def _watch(self, status: asyncio.StreamReader) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        pumps = [
            asyncio.create_task(self._pump("stdout", self._process.stdout)),
            asyncio.create_task(self._pump("stderr", self._process.stderr)),
        ]
        async for line in status:
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                self._init_pid = document.get("child-pid", self._init_pid)
                self._exit_code = document.get("exit-code", self._exit_code)
        returned = await self._process.wait()
        finished = datetime.now(UTC)
        await asyncio.wait(pumps, timeout=_DRAIN_SECONDS)
        for pump in pumps:
            pump.cancel()
        if self._log:
            self._log.close()
        code = self._exit_code if self._exit_code is not None else returned if returned >= 0 else 128 - returned
        setup_error = ""
        if self._exit_code is None and returned > 0 and returned < 128:
            setup_error = (
                self.output.decode(errors="replace").strip().splitlines()[-1:][0] if self.output else "unknown"
            )
        self.exit = Exit(code, finished, setup_error)
        self._ended.set()

    async def _pump(self, stream: Stream, source: asyncio.StreamReader) -> None:
        while data := await source.read(_CHUNK):
            # The start is kept for exec probes and for bubblewrap's own last words.
            self.output += data[: max(0, _CHUNK - len(self.output))]
            if self._log:
                self._log.write(stream, data)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0))
    return reader


def _first_child(pid: int) -> int | None:
    """The command is the first child of the container's init; later ones are orphans that the init took in."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return min(map(int, children), default=None)
