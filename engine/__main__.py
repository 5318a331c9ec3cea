"""`python -m engine inspect LOG [--metrics BEFORE AFTER] [--json]`: what a log and two scrapes prove.

Exit status: 0 speculation is on and nothing contradicts it; 1 it is off; 2 wrong usage or an unreadable file;
3 the files do not say; 4 the witnesses contradict each other, or speculation is on but does nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.inspect import EXIT_CODES, inspect

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is described above."""
    parser = argparse.ArgumentParser(
        prog="python -m engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("inspect", help="what an engine's log and two scrapes of /metrics prove")
    command.add_argument("log", metavar="LOG", help="the engine's log, - for standard input")
    command.add_argument("--metrics", nargs=2, metavar=("BEFORE", "AFTER"), help="two scrapes of its /metrics")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    try:
        log = _read(options.log)
        scrapes = (_read(options.metrics[0]), _read(options.metrics[1])) if options.metrics else None
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE_ERROR
    found = inspect(log, scrapes)
    print(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if options.json else found.text())
    return EXIT_CODES[found.outcome]


def _read(name: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())
