"""The command line: in the Job, run one validation; for people, what validation/commands/ adds to it.

usage: python -m validation [run] [INPUT] [--service-account DIR] [--patience SECONDS]
       python -m validation watch CRONJOB [INPUT] [--service-account DIR] [--patience SECONDS]

INPUT is the stack's JSON file (default /etc/validation/input.json). run: exit code 0 when a verdict was recorded, right
or wrong; 1 when none could be recorded. watch, for the Jobs of a CronJob that nobody waits for: exit code 1 for a wrong
verdict as well, which is then written as an Event of the CronJob. Wrong usage: 2.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.findings import Problems
from validation.kube import SERVICE_ACCOUNT, ApiError, Kube
from validation.probe import PATIENCE_S
from validation.run import validate
from validation.settings import INPUT_PATH, RUN_LABEL, JobInput
from validation.verdict import RESULT_KEY, Verdict
from validation.watch import report

# Not in the Job's archive (package.py).
_COMMANDS = "validation.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser, commands = _parser()
    # The Job names nothing, or only its input file.
    if not words or words[0] not in (*commands, "-h", "--help"):
        words.insert(0, "run")
    options = parser.parse_args(words)
    try:
        return int(options.call(options))
    except (Problems, ApiError) as problem:
        print(problem, file=sys.stderr)
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror}", file=sys.stderr)
    return 1


def _run(options: argparse.Namespace) -> int:
    job, kube, verdict = _validate(options)
    place = job.result
    kube.apply_config_map(place.namespace, place.config_map, {RESULT_KEY: verdict.to_json()}, {RUN_LABEL: job.run})
    print(f"recorded in ConfigMap {place.namespace}/{place.config_map}")
    return 0


def _watch(options: argparse.Namespace) -> int:
    job, kube, verdict = _validate(options)
    report(verdict, kube, job.result, options.cron_job)
    return 0 if verdict.ok else 1


def _validate(options: argparse.Namespace) -> tuple[JobInput, Kube, Verdict]:
    job = JobInput.from_json(options.input.read_bytes())
    kube = Kube.in_cluster(options.service_account)
    verdict = validate(job, kube, patience_s=options.patience, progress=lambda line: print(line, flush=True))
    print(verdict.text(), flush=True)
    return job, kube, verdict


def _parser() -> tuple[argparse.ArgumentParser, Sequence[str]]:
    """The parser and the names of its commands."""
    parser = argparse.ArgumentParser("validation", description="Validates that speculation works in a cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one validation and record its verdict")
    watch = commands.add_parser("watch", help="run one for a CronJob: a wrong verdict is an Event and a failure")
    watch.add_argument("cron_job", metavar="CRONJOB", help="its name, in the result's namespace")
    for command, call in ((run, _run), (watch, _watch)):
        command.add_argument("input", nargs="?", type=Path, default=Path(INPUT_PATH))
        command.add_argument("--service-account", type=Path, default=SERVICE_ACCOUNT, metavar="DIR")
        command.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS", help="for a route")
        command.set_defaults(call=call)
    if importlib.util.find_spec(_COMMANDS):
        from validation.commands import add_to  # noqa: PLC0415 - see above

        add_to(commands)
    return parser, tuple(commands.choices)


if __name__ == "__main__":
    sys.exit(main())
