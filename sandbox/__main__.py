"""Command line: ``python -m sandbox build | up | local | down | status | env``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from engine.findings import Problems
from sandbox import commands, state
from sandbox.layout import Layout
from sandbox.stack import Terminated


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 a problem (one line on stderr for each), 2 wrong usage, 130 interrupted."""
    options = _parser().parse_args(arguments)
    # SIGTERM ends a command like Ctrl-C does: children that build something are ended, files are removed.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        layout = Layout.from_env()
        with state.disk_full_as_problem(layout):
            return _commands()[options.command](layout, options)
    except ValueError as problems:
        if not isinstance(problems, Problems) and not str(problems).startswith("error: "):
            raise
        print(problems, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of a pipe has seen enough (`… | head`); nothing more can be said to it, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here, `python -m sandbox down` ends it", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="This machine as two Kubernetes clusters.")
    parsers = parser.add_subparsers(dest="command", required=True)
    parsers.add_parser("build", help="binaries and engine into the cache; starts nothing")
    up = parsers.add_parser("up", help="start what is missing or changed; builds binaries once")
    up.add_argument(
        "--engine", choices=["real", "fake"], help="what vLLM's CPU image is (default: as before, at first real)"
    )
    up.add_argument("--only", choices=["clusters"], help="no Crossplane, runner and gateway")
    parsers.add_parser("local", help="up, then the stack `local` on it, its address and a completion")
    down = parsers.add_parser("down", help="destroy the stack, end every process, free every port; the state is kept")
    down.add_argument("--delete", action="store_true", help="remove the state too (clusters, Pulumi's stacks)")
    parsers.add_parser("status", help="what runs; exit code 1 unless everything does")
    parsers.add_parser("env", help='shell variables for `eval "$(python -m sandbox env)"`')
    return parser


def _commands() -> dict[str, Callable[[Layout, argparse.Namespace], int]]:
    return {
        "build": lambda layout, _: commands.build(layout, _say),
        "up": lambda layout, options: commands.up(
            layout, _say, engine=options.engine, only_clusters=bool(options.only)
        ),
        "local": lambda layout, _: commands.run_local(layout, _say),
        "down": lambda layout, given: commands.down(layout, _say, delete=given.delete),
        "status": lambda layout, _: commands.status(layout, _say),
        "env": lambda layout, _: commands.env(layout, _say),
    }


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
