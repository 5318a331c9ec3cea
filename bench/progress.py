"""One line: how far a run is and how long it will take; redrawn on a terminal, elsewhere printed seldom."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TextIO

_WIDTH = 30
# Without a terminal: so many lines over the whole run.
_LINES = 10


@dataclass
class Progress:
    """total: requests to do, grows when warm-up asks for more."""

    out: TextIO
    total: int
    terminal: bool = False
    done: int = 0
    _began: float = field(default_factory=time.monotonic)
    _printed: int = 0

    def step(self, what: str) -> None:
        """One request ended; what: in which arm and block."""
        self.done += 1
        if self.terminal:
            self.out.write(f"\r\x1b[K{self.line(what)}")
            self.out.flush()
        elif self.done * _LINES // max(self.total, 1) > self._printed:
            self._printed = self.done * _LINES // max(self.total, 1)
            self.out.write(self.line(what) + "\n")
            self.out.flush()

    def say(self, text: str) -> None:
        """A line of its own."""
        self.out.write(f"\r\x1b[K{text}\n" if self.terminal else f"{text}\n")
        self.out.flush()

    def line(self, what: str) -> str:
        """The bar, the counts, the time left and what is being done."""
        share = min(1.0, self.done / max(self.total, 1))
        bar = "#" * int(share * _WIDTH)
        left = (time.monotonic() - self._began) / max(self.done, 1) * max(self.total - self.done, 0)
        return f"[{bar:.<{_WIDTH}}] {self.done}/{self.total}, {_clock(left)} left, {what}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
