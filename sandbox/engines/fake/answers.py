"""What the fake engine says: the text it is asked to return, renames applied, JSON of a schema, the one fact that it
knows, or words that repeat nothing.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import zlib
from collections.abc import Iterator, Mapping

_FENCE = re.compile(r"```[^\n`]*\n(.*?)\n?```", re.DOTALL)
_COPY = re.compile(
    r"\b(?:return|repeat|copy|rename|rewrite|edit|replace|reproduce|echo|fix|correct|refactor|unchanged|verbatim)\b",
    re.IGNORECASE,
)
_NAME = r"[`'\"]?(\w+)[`'\"]?"
_RENAME = re.compile(
    rf"\b(?:rename|replace)\s+(?:the\s+)?(?:\w+\s+){{0,2}}?{_NAME}\s+(?:to|with|by)\s+{_NAME}", re.IGNORECASE
)
_FACT = re.compile(r"\bcapital of France\b", re.IGNORECASE)
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def copied(prompt: str) -> str | None:
    """The text that a prompt asks to have back, edited as asked; None when it asks for something else.

    That text is the last fenced block, all that follows the first empty line, or, in one paragraph, the first colon.
    """
    fences = list(_FENCE.finditer(prompt))
    if fences:
        text = fences[-1][1]
        order = prompt[: fences[-1].start()] + prompt[fences[-1].end() :]
    else:
        order, _, text = prompt.partition("\n\n" if "\n\n" in prompt else ": ")
    if not text.strip() or not _COPY.search(order):
        return None
    for old, new in _RENAME.findall(order):
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text.strip("\n")


def known(prompt: str) -> str | None:
    """The answer to a question that the "model" knows, None for any other prompt."""
    return "The capital of France is Paris." if _FACT.search(prompt) else None


def instance(schema: object) -> str:
    """The first JSON text that a schema allows: of an enum, an object with its required properties, or a scalar."""
    return json.dumps(_instance(schema))


def _instance(schema: object) -> object:
    given = schema if isinstance(schema, Mapping) else {}
    if given.get("enum"):
        return given["enum"][0]
    properties = given.get("properties")
    if isinstance(properties, Mapping):
        return {name: _instance(inner) for name, inner in properties.items()}
    values: dict[object, object] = {"boolean": True, "integer": 1, "number": 1.5, "string": "text", "array": []}
    return values.get(given.get("type"), {})


def prose(seed: str) -> Iterator[str]:
    """Words without end, each with a space before it, the same for the same seed.

    None comes twice within 4,900 words, so no two follow each other again.
    """
    syllables = ["".join(pair) for pair in itertools.product(_CONSONANTS, _VOWELS)]
    words = ["".join(pair) for pair in itertools.product(syllables, syllables)]
    source = random.Random(zlib.crc32(seed.encode("utf-8", "surrogatepass")))
    while True:
        source.shuffle(words)
        yield from (f" {word}" for word in words)


def garbage(seed: str) -> Iterator[str]:
    """Signs without sense, without end."""
    source = random.Random(zlib.crc32(seed.encode("utf-8", "surrogatepass")) + 1)
    while True:
        yield chr(source.randrange(0x21, 0x7E)) + chr(source.randrange(0xC0, 0x17F))
