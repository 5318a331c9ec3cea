"""Runs dynamic resources for a Pulumi CLI that came without its hosts (`pulumi-resource-pulumi-python`).

It is the SDK's own provider (`python -m pulumi.dynamic`), which would run on for good after a CLI that was killed.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time

_PARENT_SECONDS = 1.0


def _end_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    # As `python -m` has it: the program's folder first, so that its modules can be unpickled.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - a string is what sys.path holds
    threading.Thread(target=_end_with_parent, daemon=True).start()
    runpy.run_module("pulumi.dynamic", run_name="__main__")
