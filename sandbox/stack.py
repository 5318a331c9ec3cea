"""The stack `local`, driven with the Pulumi CLI as a person would: up, destroy, outputs, and the repair after a crash.

Uses the real program and the real engine with the sandbox's own backend; it knows nothing of what the program makes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.findings import Finding, Problems, Severity
from sandbox import procfs
from sandbox.layout import Layout

PROJECT = "speculation"
STACK = "local"


class Terminated(KeyboardInterrupt):
    """SIGTERM: unlike Ctrl-C it reaches this process only, not its children."""


class StackError(Exception):
    """`pulumi` ended with an error that it has already shown."""

    def __init__(self, command: str, status: int) -> None:
        super().__init__(f"pulumi {command} ended with status {status}")
        self.status = status


@dataclass(frozen=True)
class Stack:
    """One stack of the program in a sandbox. env: the sandbox's shell environment, in which plain `pulumi` works."""

    layout: Layout
    env: dict[str, str]
    name: str = STACK

    def pulumi(self, *arguments: str, quiet: bool = False) -> str:
        """Run the CLI in the repository. Returns its output when quiet; otherwise it is shown as it comes.

        StackError when it ends with an error.
        """
        with subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.layout.repository,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.PIPE if quiet else None,
            text=True,
        ) as child:
            try:
                output, errors = child.communicate()
            except KeyboardInterrupt as interrupt:
                # From a terminal the CLI got it too. It finishes what runs, saves its state and ends; a second signal
                # would cut that short.
                if isinstance(interrupt, Terminated):
                    child.send_signal(signal.SIGINT)
                child.wait()
                raise
        if child.returncode:
            if quiet:
                os.write(2, errors.encode())
            raise StackError(arguments[0], child.returncode)
        return output or ""

    @property
    def exists(self) -> bool:
        return (self.layout.pulumi_backend / ".pulumi" / "stacks" / PROJECT / f"{self.name}.json").exists()

    def up(self, *arguments: str) -> None:
        if not self.exists:
            self.pulumi("stack", "init", self.name, quiet=True)
        self.repair()
        # The outputs are long (a verdict with its evidence); the caller shows what matters of them.
        self.pulumi("up", "--stack", self.name, "--yes", "--skip-preview", "--suppress-outputs", *arguments)

    def destroy(self) -> None:
        """Destroy what the stack made; its history stays."""
        if not self.exists:
            return
        self.repair()
        if self.resources():
            self.pulumi("destroy", "--stack", self.name, "--yes", "--skip-preview")

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs; secrets are masked."""
        found: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--stack", self.name, "--json", quiet=True))
        return found

    def resources(self) -> list[dict[str, Any]]:
        deployment = json.loads(self.pulumi("stack", "export", "--stack", self.name, quiet=True))["deployment"]
        found: list[dict[str, Any]] = deployment.get("resources", [])
        return found

    def repair(self) -> None:
        """What a killed `pulumi` left: its lock, and operations it never heard the end of.

        Problems, one line, when the lock belongs to a `pulumi` that still runs.
        """
        held = self._locks()
        for pid, file in held:
            # A pid may have been given to another program since.
            if "pulumi" in procfs.command(pid):
                raise Problems([_busy(self.name, pid, file)])
        if held:
            self.pulumi("cancel", "--stack", self.name, "--yes", quiet=True)
        exported = json.loads(self.pulumi("stack", "export", "--stack", self.name, quiet=True))
        if exported["deployment"].get("pending_operations"):
            # Every resource of this program is created again safely: server-side apply adopts what is there.
            self.pulumi("refresh", "--stack", self.name, "--yes", "--skip-preview", "--clear-pending-creates")

    def _locks(self) -> list[tuple[int, Path]]:
        """(pid of the holder, lock file) of each lock of this stack."""
        folder = self.layout.pulumi_backend / ".pulumi" / "locks" / "organization" / PROJECT / self.name
        return [(int(json.loads(file.read_text())["pid"]), file) for file in sorted(folder.glob("*.json"))]


def _busy(stack: str, pid: int, file: Path) -> Finding:
    return Finding(
        Severity.ERROR,
        f"stack {stack}",
        None,
        f"another pulumi (pid {pid}) is working on it: {file}",
        "wait until it ends, or end it and run this again",
    )
