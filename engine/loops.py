"""Repetition loops: a text that says the same over and over is a broken answer, and the fastest to speculate on."""

from __future__ import annotations

# A part of a text that is this many characters long and consists of at least this many repeats is a loop: no
# sound answer has such a part (white space counts as one character).
LOOP_LENGTH = 60
LOOP_REPEATS = 4


def find_loop(text: str) -> str | None:
    """The part that a text repeats over and over, None when it does not."""
    text = " ".join(text.split())
    for period in range(1, len(text) // LOOP_REPEATS + 1):
        # A run of n characters that equal those one period before is n/period repeats after the first.
        needed = max(LOOP_LENGTH - period, period * (LOOP_REPEATS - 1))
        run = 0
        for place in range(period, len(text)):
            run = run + 1 if text[place] == text[place - period] else 0
            if run >= needed:
                return text[place - period + 1 : place + 1]
    return None
