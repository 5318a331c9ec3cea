"""Validates a running stack again without `up`: one more run of the same Job, of which nothing stays.

What it needs are the stack's outputs. The kubeconfig among them is only ever held in memory.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from components.gates.errors import KubeError
from components.gates.kube import Kube
from components.gates.validation_job import INPUTS, object_name, remove, run_id, run_job
from components.gates.waiting import GateError, Run
from engine.findings import Finding
from validation.verdict import Verdict

Say = Callable[[str], None]
ROOT = Path(__file__).resolve().parents[2]
KUBECONFIG, JOB = "workload_kubeconfig", "validation_job"


class NotJudged(Exception):  # noqa: N818 - it is no fault of this program
    """No verdict came back. str() is one line: what, why, what to do."""


@dataclass(frozen=True)
class Target:
    """What is validated, where. kubeconfig: text; inputs: of the Job (validation_job.py)."""

    kubeconfig: str
    inputs: dict[str, str]


def check(stack: str | None, timeout_s: float, say: Say) -> Verdict:
    """Run the Job of a stack once more. stack: None for the selected one; say: shows a line of progress.

    Raises NotJudged.
    """
    target = read_target(stack)
    kube, name = Kube(target.kubeconfig), run_id(target.inputs)
    with _ended_by_sigterm():
        try:
            return run_job(kube, target.inputs, name, Run(timeout_s, say, say, threading.Event()))
        except (GateError, KubeError) as error:
            raise _not_judged(stack, str(error)) from None
        finally:
            _tidy(kube, target.inputs["namespace"], name, say)


def read_target(stack: str | None) -> Target:
    """The stack's outputs, through the Pulumi CLI. Raises NotJudged."""
    outputs = _outputs(stack)
    missing = [name for name in (KUBECONFIG, JOB) if not outputs.get(name)]
    if missing:
        remedy = "`pulumi up` writes it, unless speculation:validation.enabled is false"
        raise _not_judged(stack, f"it has no output {missing[0]}", remedy)
    kubeconfig, inputs = outputs[KUBECONFIG], outputs[JOB]
    if not isinstance(inputs, dict) or any(not isinstance(inputs.get(name), str) for name in INPUTS):
        remedy = "`pulumi up` of this version writes it"
        raise _not_judged(stack, f"its output {JOB} is that of another version of this program", remedy)
    return Target(kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig), inputs)


def _outputs(stack: str | None) -> dict[str, Any]:
    chosen = ["--stack", stack] if stack else []
    command = ["pulumi", "stack", "output", "--json", "--show-secrets", "--non-interactive", *chosen]
    try:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        raise _not_judged(stack, "`pulumi` is not on PATH", "install it; for the sandbox, `. .sandbox/env`") from None
    if ran.returncode:
        said = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        why = next((line for line in said if line.startswith("error: ")), said[-1] if said else "no reason given")
        raise _not_judged(stack, f"`pulumi stack output` fails: {why.removeprefix('error: ')}")
    try:
        outputs = json.loads(ran.stdout)
    except ValueError:
        outputs = None
    if not isinstance(outputs, dict):
        # Not quoted: there are secrets in it.
        raise _not_judged(stack, "`pulumi stack output --json` printed no JSON object")
    return outputs


def _tidy(kube: Kube, namespace: str, name: str, say: Say) -> None:
    """Delete the Job and its ConfigMaps, also when a call was interrupted half-way."""
    kube.close()
    try:
        remove(kube, namespace, name)
    except KubeError as error:
        say(f"warning: Job {namespace}/{object_name(name)} was not removed: {error}; the next run of `up` does it")
    finally:
        kube.close()


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: with everything tidied up."""

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _not_judged(stack: str | None, why: str, remedy: str = "") -> NotJudged:
    name = f"stack {stack}" if stack else "the selected stack"
    return NotJudged(Finding.error(name, None, why, remedy).line())
