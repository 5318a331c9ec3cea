"""What can go wrong between a gate and a cluster; on its own, so that the provider starts before the client loads."""

from __future__ import annotations


class KubeError(Exception):
    """The API server could not be asked, or refused. status: HTTP status, 0 without an answer; fatal: asking again
    will not help.
    """

    def __init__(self, message: str, *, status: int = 0, fatal: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.fatal = fatal
