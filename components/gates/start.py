"""Has Pulumi start the gates' provider while the program is still being loaded.

Pulumi starts a provider when something first needs it, and starts one after the other; without this, every preview
would wait for this one after all imports are done, although nothing has to be known for it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import grpc  # type: ignore[import-untyped, unused-ignore]
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_monitor

# A function of the provider that does nothing: a call of it needs the provider.
START = "speculation:gates:start"


def start_provider() -> None:
    """Returns at once. Errors are left to the first resource that needs the provider."""
    monitor = get_monitor()
    if monitor is not None:
        threading.Thread(target=_call, args=(monitor,), daemon=True).start()


def _call(monitor: Any) -> None:  # noqa: ANN401 - a generated stub
    with contextlib.suppress(grpc.RpcError):
        monitor.Invoke(resource_pb2.ResourceInvokeRequest(tok=START))
