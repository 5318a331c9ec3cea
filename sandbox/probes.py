"""Readiness probes of the supervised processes: one quick request, yes or no."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sandbox.layout import LOOPBACK

# On loopback an answer takes milliseconds; the caller asks again anyway.
_SECONDS = 1.0


def https_ok(port: int, path: str, pki: Path, identity: str | None = None) -> Callable[[], bool]:
    """Yes when GET https://127.0.0.1:<port><path> says 2xx. identity: stem of the client certificate in pki."""

    def probe() -> bool:
        try:
            connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=_SECONDS, context=_context(pki, identity))
            try:
                connection.request("GET", path)
                return 200 <= connection.getresponse().status < 300
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    return probe


def http_ok(port: int, path: str) -> Callable[[], bool]:
    """Yes when GET http://127.0.0.1:<port><path> says 2xx."""

    def probe() -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_SECONDS)
        try:
            connection.request("GET", path)
            return 200 <= connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return probe


def listens(port: int) -> Callable[[], bool]:
    """Yes when something accepts a connection on the loopback port."""

    def probe() -> bool:
        with socket.socket() as client:
            client.settimeout(_SECONDS)
            return client.connect_ex((LOOPBACK, port)) == 0

    return probe


@cache
def _context(pki: Path, identity: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    if identity:
        context.load_cert_chain(pki / f"{identity}.crt", pki / f"{identity}.key")
    return context
