"""Is the text that came back sound? Tolerant of what a small model can do, not of what only a broken engine does.

Two tasks are asked. The edit is the one that a reader of the recipe would try; a model of 135M parameters may fail it,
or repeat itself. The copy of a list of words is within reach of any instruction-tuned model, and n-gram drafts it well
since it has no repeats of its own and stands in the prompt. So the copy decides, and a spoilt edit is forgiven only
beside exact copies: a broken engine spoils both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from engine.loops import find_loop
from engine.redact import redact
from engine.sse import Completion

# Share of the expected words from which an answer is an exact copy, or one at all. A chatty preamble costs nothing;
# a small model that drops the end of the list still has half.
EXACT_SHARE = 0.9
FAIR_SHARE = 0.5
# Characters of an answer that are quoted as evidence.
_QUOTED = 160

_WORD = re.compile(r"\w+")


class Grade(Enum):
    """How well an answer fulfils its task; the worst first."""

    EMPTY = "empty"
    LOOP = "a repetition loop"
    WRONG = "not what was asked for"
    FAIR = "fair"
    EXACT = "exact"


@dataclass(frozen=True)
class Task:
    """One prompt. words: what a sound answer contains; fair_share: share of them from which it is sound."""

    name: str
    prompt: str
    max_tokens: int
    words: frozenset[str]
    fair_share: float = FAIR_SHARE


@dataclass(frozen=True)
class Graded:
    """A graded answer; why: in a few words."""

    grade: Grade
    why: str


_LIST = (
    "apple, river, window, carpet, yellow, bridge, garden, pencil, silver, market, "
    "candle, forest, button, planet, guitar, winter, pocket, island, hammer, coffee"
)
# The list and a preamble have 70 tokens at most in the tokenizers of the models that we know.
COPY = Task(
    "copy", f"Repeat this list of words exactly:\n\n{_LIST}", max_tokens=120, words=frozenset(_WORD.findall(_LIST))
)
# Half of the words of the edit are too much for the smallest models, which keep the signature and invent a body.
EDIT = Task(
    "edit",
    "Return this Python function unchanged except rename the variable `total` to `subtotal`. Output only the code.\n\n"
    "def cart(items):\n    total = 0\n    for item in items:\n        total += item.price\n    return total",
    max_tokens=200,
    words=frozenset({"def", "cart", "items", "subtotal", "for", "item", "in", "price", "return"}),
    fair_share=0.3,
)


def grade(completion: Completion, task: Task) -> Graded:
    """Grade a completed answer by its text; thinking counts as text, but need not fulfil the task."""
    text = completion.text or completion.reasoning
    if not text.strip():
        return Graded(Grade.EMPTY, "the completion is empty")
    loop = find_loop(text)
    if loop:
        return Graded(Grade.LOOP, f"it repeats {quoted(loop, 40)} over and over")
    found = task.words & set(_WORD.findall(text))
    share = len(found) / len(task.words)
    why = f"{len(found)} of {len(task.words)} expected words"
    if share >= EXACT_SHARE:
        return Graded(Grade.EXACT, why)
    if share >= task.fair_share:
        return Graded(Grade.FAIR, why)
    if is_thinking(completion) and found:
        return Graded(Grade.FAIR, f"{why} in the model's thinking")
    return Graded(Grade.WRONG, f"{why} in {quoted(text)}")


def is_thinking(completion: Completion) -> bool:
    """Whether the answer begins with thinking, in its own field or in the text."""
    return bool(completion.reasoning.strip()) or completion.text.lstrip().startswith("<think>")


def quoted(text: str, limit: int = _QUOTED) -> str:
    """The beginning of a text on one line, redacted, in quotes."""
    line = " ".join(redact(text).split())
    return f'"{line}"' if len(line) <= limit else f'"{line[:limit]}…"'
