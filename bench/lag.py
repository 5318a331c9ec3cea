"""How late the client's own event loop is: what it adds to every time stamp, recorded with each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Often enough to see a pause that would shift a chunk, seldom enough to cost nothing.
_TICK_S = 0.01


class LagWindow:
    """The worst lateness seen so far, in seconds."""

    worst = 0.0


class LagMeter:
    """A timer that notes by how much it was late, for every window that is open then."""

    def __init__(self) -> None:
        self._windows: set[LagWindow] = set()
        self._due = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due = time.monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._note()

    @contextmanager
    def window(self) -> Iterator[LagWindow]:
        """A stretch of time whose worst lateness is wanted."""
        window = LagWindow()
        self._windows.add(window)
        try:
            yield window
        finally:
            self._note()  # a tick may be overdue
            self._windows.discard(window)

    def _note(self) -> None:
        late = time.monotonic() - self._due if self._due else 0.0
        for window in self._windows:
            window.worst = max(window.worst, late)
