"""What people ask of a validation from outside the cluster. It stays behind when the program travels into the Job, and
so may use the rest of the project.

usage: python -m validation check [--stack S] [--json] [--html FILE] [--timeout SECONDS]
       python -m validation show FILE [--json] [--html FILE]
       python -m validation dashboard
       python -m validation rules [--write DOCUMENT]

check: validate a running stack again. show: a recorded verdict ("-": standard input). Exit code of both: 0 when the
verdict is right; 1 when it is wrong; 2 on wrong usage; 3 when it could not be judged: the verdict is cannot-tell, or
there is none. dashboard: Grafana's JSON. rules: the table from witnesses to verdict, or its place in a document
updated.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validation.verdict import Verdict

# Longer than the 10 minutes that `up` gives a run by default, so that what it waits for is the same.
TIMEOUT_S = 600.0
NOT_JUDGED = 3


def add_to(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the type to itself
    """Add the commands to those of the program."""
    check = commands.add_parser("check", help="validate a running stack again, without `up`")
    check.add_argument("--stack", metavar="S", help="without it the selected one")
    check.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="default: %(default)s")
    check.set_defaults(call=_check)
    show = commands.add_parser("show", help="print a recorded verdict")
    show.add_argument("file", help="verdict.json, or - for standard input")
    show.set_defaults(call=_show)
    for command in (check, show):
        command.add_argument("--json", action="store_true", help="the whole document instead of its text")
        command.add_argument("--html", type=_new_file, metavar="FILE", help="write it as a page, too")
    dashboard = commands.add_parser("dashboard", help="print the Grafana dashboard")
    dashboard.set_defaults(call=_dashboard)
    rules = commands.add_parser("rules", help="print the table from witnesses to verdict")
    rules.add_argument("--write", type=Path, metavar="DOCUMENT", help="bring the table in this document up to date")
    rules.set_defaults(call=_rules)


def _check(options: argparse.Namespace) -> int:
    from validation.commands.check import NotJudged, check  # noqa: PLC0415 - only what a command needs is loaded

    try:
        verdict = check(options.stack, options.timeout, lambda line: print(line, file=sys.stderr, flush=True))
    except NotJudged as problem:
        print(problem, file=sys.stderr)
        return NOT_JUDGED
    except KeyboardInterrupt:
        print("interrupted: the Job is removed, nothing was judged", file=sys.stderr)
        return 128 + signal.SIGINT
    return _told(verdict, options)


def _show(options: argparse.Namespace) -> int:
    from engine.findings import Problems  # noqa: PLC0415
    from validation.verdict import Verdict  # noqa: PLC0415

    try:
        text = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
        verdict = Verdict.from_json(text)
    except Problems as problems:
        print(problems, file=sys.stderr)
        return NOT_JUDGED
    except OSError as problem:
        print(f"error: {options.file}: {problem.strerror}; give a file with a verdict", file=sys.stderr)
        return 2
    return _told(verdict, options)


def _told(verdict: Verdict, options: argparse.Namespace) -> int:
    """Show a verdict as asked; the exit code that belongs to it."""
    from validation.verdict import Outcome  # noqa: PLC0415

    print(verdict.to_json() if options.json else verdict.text())
    if options.html:
        from validation.commands.report import verdict_page  # noqa: PLC0415

        options.html.write_text(verdict_page(verdict), encoding="utf-8")
    if verdict.ok:
        return 0
    print(f"error: {verdict.verdict}, where {verdict.declared} is declared", file=sys.stderr)
    return NOT_JUDGED if verdict.verdict is Outcome.CANNOT_TELL else 1


def _dashboard(options: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes them
    from validation.commands.dashboard import dashboard_json  # noqa: PLC0415

    print(dashboard_json())
    return 0


def _rules(options: argparse.Namespace) -> int:
    from validation import rules  # noqa: PLC0415

    if options.write is None:
        print(rules.markdown())
    else:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(rules.written_into(document), encoding="utf-8")
    return 0


def _new_file(name: str) -> Path:
    """A path to write to; refused before a validation is run for it in vain."""
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{name} cannot be written: name a file in a folder that exists")
    return path
