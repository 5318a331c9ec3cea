"""`python compare.py BASELINE NGRAM`: compare two folders that bench.py wrote, as `python -m bench compare` does."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # The package bench, not the script beside this one.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    sys.argv.insert(1, "compare")
    runpy.run_module("bench", run_name="__main__", alter_sys=True)
