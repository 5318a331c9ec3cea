"""Entry of the provider process: `python -m components.gates ENGINE_ADDRESS`.

Only the protocol's messages are taken from Pulumi's SDK. The packages around them load the whole SDK, half a second
that every preview would wait for; they are replaced by empty ones here, in a process that runs nothing else.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import types
from pathlib import Path

# Parents of pulumi.runtime.proto, the generated messages.
PARENTS = ("pulumi", "pulumi.runtime")


def skip_the_sdk() -> None:
    """Put empty packages in the place of the SDK's, so that only what is asked for is loaded from its folders."""
    spec = importlib.util.find_spec(PARENTS[0])
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    for name in PARENTS:
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


if __name__ == "__main__":
    skip_the_sdk()
    from components.gates import provider

    # The first check needs it as soon as the engine has connected.
    threading.Thread(target=provider.preload, daemon=True).start()
    provider.main(sys.argv[1:])
