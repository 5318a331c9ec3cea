"""Is the text that came back sound? Tolerant of what a small model can do, not of what only a broken engine does.

Two tasks are copied from the prompt. The edit is the one that a reader of the recipe would try; a model of 135M
parameters may fail it, or repeat itself. The copy of a list of words is within reach of any instruction-tuned model,
and n-gram drafts it well since it has no repeats of its own and stands in the prompt. So the copy decides, and a spoilt
edit is forgiven only beside exact copies: a broken engine spoils both.

Two are not: a plain question, and one whose answer has to be JSON of a schema. What is broken in them alone (drafts
that are wrong outside of copies, a grammar that drafts escape) does not show in a copy.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
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
    UNFINISHED = "cut at its limit of tokens, sound so far"
    FAIR = "fair"
    EXACT = "exact"


@dataclass(frozen=True)
class Task:
    """One prompt. words: what a sound answer contains; fair_share: share of them from which it is sound; copied: the
    answer stands in the prompt; choices: property -> values that a JSON answer has to choose from, in this order.
    """

    name: str
    prompt: str
    max_tokens: int
    words: frozenset[str] = frozenset()
    fair_share: float = FAIR_SHARE
    copied: bool = True
    choices: Mapping[str, tuple[object, ...]] | None = None

    @property
    def response_format(self) -> dict[str, object] | None:
        """The request's field for a JSON answer: the one spelling that every version in engine/versions.py takes."""
        if self.choices is None:
            return None
        schema = {
            "type": "object",
            "properties": {name: _property(values) for name, values in self.choices.items()},
            "required": list(self.choices),
            "additionalProperties": False,
        }
        return {"type": "json_schema", "json_schema": {"name": self.name, "schema": schema}}


def _property(values: tuple[object, ...]) -> dict[str, object]:
    if all(isinstance(value, bool) for value in values):
        return {"type": "boolean"}
    return {"type": "string", "enum": list(values)}


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
# Half of the words of the edit are too much for the smallest models, which keep the signature and invent a body. A
# chatty answer has some 100 tokens.
EDIT = Task(
    "edit",
    "Return this Python function unchanged except rename the variable `total` to `subtotal`. Output only the code.\n\n"
    "def cart(items):\n    total = 0\n    for item in items:\n        total += item.price\n    return total",
    max_tokens=150,
    words=frozenset({"def", "cart", "items", "subtotal", "for", "item", "in", "price", "return"}),
    fair_share=0.3,
)
# Any one of the words is enough: the smallest models know the sentence, if not the city. A model that thinks needs the
# tokens.
CHAT = Task(
    "chat",
    "What is the capital of France? Answer in one short sentence.",
    max_tokens=64,
    words=frozenset({"Paris", "capital", "France"}),
    fair_share=0.3,
    copied=False,
)
# Nothing in it is free but white space, so an answer has some 15 tokens.
GUIDED = Task(
    "JSON",
    "What colour is the sky on a clear day? Answer as JSON with the keys colour (red, green or blue) and bright (true "
    "or false).",
    max_tokens=48,
    copied=False,
    choices={"colour": ("red", "green", "blue"), "bright": (True, False)},
)


def grade(completion: Completion, task: Task) -> Graded:
    """Grade a completed answer by its text; thinking counts as text, but need not fulfil the task."""
    text = completion.text or completion.reasoning
    if not text.strip():
        return Graded(Grade.EMPTY, "the completion is empty")
    if task.choices is not None:
        return _grade_json(completion, task.choices)
    loop = find_loop(text)
    if loop:
        return Graded(Grade.LOOP, f"it repeats {quoted(loop, 40)} over and over")
    return _grade_words(completion, task)


def _grade_words(completion: Completion, task: Task) -> Graded:
    text = completion.text or completion.reasoning
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


def _grade_json(completion: Completion, choices: Mapping[str, tuple[object, ...]]) -> Graded:
    """A choice of each property, whole; or the beginning of one where the tokens ran out (white space aside)."""
    text, cut = completion.text, completion.finish_reason == "length"
    if not text.strip() and cut:
        return Graded(Grade.UNFINISHED, "the model's thinking took all tokens")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        begun = "".join(text.split())
        if cut and any(whole.startswith(begun) for whole in _spelled(choices)):
            return Graded(Grade.UNFINISHED, f"the JSON is not finished: {quoted(text)}")
        return Graded(Grade.WRONG, f"this is not JSON: {quoted(text)}")
    fits = isinstance(found, dict) and found.keys() == choices.keys()
    # As JSON, since in Python 1 is True.
    if not fits or any(json.dumps(found[name]) not in map(json.dumps, choices[name]) for name in choices):
        return Graded(Grade.WRONG, f"this JSON does not fit the schema: {quoted(text)}")
    return Graded(Grade.EXACT, "it fits the schema")


def _spelled(choices: Mapping[str, tuple[object, ...]]) -> Iterator[str]:
    """Every whole answer, without white space."""
    for values in itertools.product(*choices.values()):
        yield json.dumps(dict(zip(choices, values, strict=True)), separators=(",", ":"))


def is_thinking(completion: Completion) -> bool:
    """Whether the answer begins with thinking, in its own field or in the text."""
    return bool(completion.reasoning.strip()) or completion.text.lstrip().startswith("<think>")


def quoted(text: str, limit: int = _QUOTED) -> str:
    """The beginning of a text on one line, redacted, in quotes."""
    line = " ".join(redact(text).split())
    return f'"{line}"' if len(line) <= limit else f'"{line[:limit]}…"'
