"""The command line: run one validation (in the Job), show a verdict, print or write the table of the rules.

usage: python -m validation [run] [INPUT] [--service-account DIR] [--patience SECONDS]
       python -m validation show FILE
       python -m validation rules [--write DOCUMENT]

run: INPUT is the stack's JSON file (default /etc/validation/input.json). Exit code 0 when a verdict was recorded, right
or wrong; 1 when none could be recorded; 2 on wrong usage. show: the text of a verdict ("-": standard input); exit code
0 when it is right, 1 when it is wrong or cannot be read. rules: the table, or its place in a document updated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.findings import Problems
from validation import rules
from validation.kube import SERVICE_ACCOUNT, ApiError, Kube
from validation.probe import PATIENCE_S
from validation.run import validate
from validation.settings import INPUT_PATH, RUN_LABEL, JobInput
from validation.verdict import RESULT_KEY, Verdict

_COMMANDS = ("run", "show", "rules")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # The Job names nothing, or only its input file.
    if not words or words[0] not in (*_COMMANDS, "-h", "--help"):
        words.insert(0, "run")
    options = _parser().parse_args(words)
    try:
        if options.command == "run":
            return _run(options.input, options.service_account, options.patience)
        if options.command == "show":
            return _show(options.file)
        return _rules(options.write)
    except (Problems, ApiError) as problem:
        print(problem, file=sys.stderr)
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror}", file=sys.stderr)
    return 1


def _run(path: Path, service_account: Path, patience_s: float) -> int:
    job = JobInput.from_json(path.read_bytes())
    kube = Kube.in_cluster(service_account)
    verdict = validate(job, kube, patience_s=patience_s, progress=lambda line: print(line, flush=True))
    print(verdict.text(), flush=True)
    place = job.result
    kube.apply_config_map(place.namespace, place.config_map, {RESULT_KEY: verdict.to_json()}, {RUN_LABEL: job.run})
    print(f"recorded in ConfigMap {place.namespace}/{place.config_map}")
    return 0


def _show(path: str) -> int:
    verdict = Verdict.from_json(sys.stdin.read() if path == "-" else Path(path).read_bytes())
    print(verdict.text())
    return 0 if verdict.ok else 1


def _rules(document: Path | None) -> int:
    if document is None:
        print(rules.markdown())
        return 0
    document.write_text(rules.written_into(document.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("validation", description="Validates that speculation works in a cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one validation and record its verdict")
    run.add_argument("input", nargs="?", type=Path, default=Path(INPUT_PATH))
    run.add_argument("--service-account", type=Path, default=SERVICE_ACCOUNT, metavar="DIR", help="token and ca.crt")
    run.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS", help="wait for a route so long")
    show = commands.add_parser("show", help="print a recorded verdict")
    show.add_argument("file", help="verdict.json, or - for standard input")
    table = commands.add_parser("rules", help="print the table from witnesses to verdict")
    table.add_argument("--write", type=Path, metavar="DOCUMENT", help="bring the table in this document up to date")
    return parser


if __name__ == "__main__":
    sys.exit(main())
