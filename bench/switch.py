"""How the engine of a block comes to be there: given addresses, or a command of the user's that replaces the engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bench.records import Arm
from engine import decode
from engine.findings import Finding, Problems, Severity

# An engine that downloads its model and compiles its graphs takes a quarter of an hour.
COMMAND_S = 1800.0


@dataclass(frozen=True)
class Placed:
    """The engine that serves a block, as whoever placed it describes it.

    address: without /v1; image: with its digest; args: of the container; device: name, driver, … of the GPU; replicas:
    behind the address; service_run: id of its deployment; log: a file with the engine's own log. All but the address
    may be left out, and are then unknown.
    """

    address: str
    image: str = ""
    args: tuple[str, ...] = ()
    device: dict[str, object] = field(default_factory=dict)
    replicas: int | None = None
    service_run: str | None = None
    log: str | None = None


class Switch(Protocol):
    """Puts the engine of an arm in place."""

    async def place(self, arm: Arm, order: int) -> Placed:
        """The engine of the block at this place of the order; Problems when it cannot be had."""
        ...

    async def close(self) -> None:
        """The experiment is over, or was interrupted."""
        ...


@dataclass(frozen=True)
class GivenAddresses:
    """Engines that run already and stay: nothing is started, so no block has a fresh one."""

    engines: Mapping[Arm, Placed]

    async def place(self, arm: Arm, order: int) -> Placed:  # noqa: ARG002 - the engine is the same in every block
        return self.engines[arm]

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class CommandSwitch:
    """Runs `COMMAND ARM ORDER` for each block and `COMMAND stop` at the end.

    The command ends the engine that runs, makes sure that it is gone, starts a fresh one, waits until it serves, and
    prints one JSON object as its last line: a `Placed`.
    """

    command: str
    seconds: float = COMMAND_S

    async def place(self, arm: Arm, order: int) -> Placed:
        output = await self._run(arm.value, str(order))
        last = output.strip().rpartition("\n")[2]
        return decode.build(Placed, decode.load_object(last, "switch"), "switch")

    async def close(self) -> None:
        await self._run("stop")

    async def _run(self, *words: str) -> str:
        argv = [*shlex.split(self.command), *words]
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as problem:
            raise self._problem(words, str(problem.strerror)) from problem
        try:
            async with asyncio.timeout(self.seconds):
                output, _ = await process.communicate()
        except TimeoutError as problem:
            raise self._problem(words, f"it did not end within {self.seconds:.0f} s") from problem
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise self._problem(words, f"it ended with exit code {process.returncode}")
        return output.decode("utf-8", "replace")

    def _problem(self, words: tuple[str, ...], why: str) -> Problems:
        return Problems([Finding(Severity.ERROR, "switch", f"{self.command} {' '.join(words)}", why)])
