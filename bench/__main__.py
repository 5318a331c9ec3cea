"""`python -m bench COMMAND`: run an experiment, compare two arms, replay logs. Each command has its own --help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

# Each is bench/command_NAME.py with a function main(argv) -> exit status, imported when asked for.
COMMANDS = ("run", "compare", "replay")
USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Hand the rest of the words to a command; its exit status, or 2 on wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        return int(import_module(f"bench.command_{words[0]}").main(words[1:]))
    print(f"usage: python -m bench {{{','.join(COMMANDS)}}} ...\n\n{__doc__}", file=sys.stderr)
    return 0 if words and words[0] in ("-h", "--help") else USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
