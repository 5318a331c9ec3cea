"""Runs at the start of each Python process of a container: the wildcard address becomes the pod's address.

Pods share the machine's network: a server on 0.0.0.0 would be open to the world and take the port from every other pod.
Only Python's own sockets pass here; servers in C (ZeroMQ, torch's store) do not.
"""

import os
import socket
from typing import Any

_POD = os.environ.get("SANDBOX_POD_ADDRESS", "")
_bind = socket.socket.bind


def _bind_in_pod(self: socket.socket, address: Any) -> None:  # noqa: ANN401 - each family has its own form
    if self.family == socket.AF_INET and address[0] in ("", "0.0.0.0"):
        address = (_POD, *address[1:])
    elif self.family == socket.AF_INET6 and address[0] in ("", "::"):
        only_v6 = self.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        address = ("::1" if only_v6 else f"::ffff:{_POD}", *address[1:])
    _bind(self, address)


if _POD:
    socket.socket.bind = _bind_in_pod  # type: ignore[method-assign, assignment]
