"""`python bench.py --concurrency 1 --repeats 10 --service-run UUID --out DIR`: measure one Polyaxon service.

SERVICE_URL and POLYAXON_TOKEN are read from the environment. All options of `python -m bench run` may be given.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # The package of the same name, not this file.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    sys.argv[1:1] = ["run", "--token-env", "POLYAXON_TOKEN", "--token-scheme", "token"]
    runpy.run_module("bench", run_name="__main__", alter_sys=True)
