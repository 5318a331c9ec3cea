"""`python -m bench compare A [B]`: what speculation was worth. A, B: folders of runs, in any order.

Give both arms' folders, or the one folder of an experiment that has both. Exit status: 0 compared, 1 the data cannot
carry a number (the sentence says why), 2 wrong usage or an unreadable run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.compare import compare
from bench.compare_markdown import markdown
from bench.records import read_run
from engine.findings import Problems

REFUSED, USAGE_ERROR = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is described above."""
    options = _parser().parse_args(argv)
    if len(options.runs) > 2:
        print("error: give one or two folders; each concurrency is a comparison of its own", file=sys.stderr)
        return USAGE_ERROR
    try:
        runs = [read_run(folder) for folder in options.runs]
        found = compare(runs, price_per_hour=options.price, keep_caps=options.keep_caps)
        text = markdown(found)
        if options.markdown:
            options.markdown.write_text(text, encoding="utf-8")
    except Problems as problems:
        print(problems, file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE_ERROR
    print(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if options.json else text.rstrip("\n"))
    return REFUSED if found.refused else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of Markdown")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the Markdown there as well")
    parser.add_argument("--price", type=float, metavar="PER_HOUR", help="of all that serves: gives cost per tokens")
    parser.add_argument(
        "--keep-caps", action="store_true", help="compare answers that both arms cut at max_tokens too: equal work"
    )
    return parser
