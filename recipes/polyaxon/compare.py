"""`python compare.py BASELINE SPECULATIVE`: `python -m bench compare`, from the folder of the recipe."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.argv.insert(1, "compare")
runpy.run_module("bench", run_name="__main__", alter_sys=False)
