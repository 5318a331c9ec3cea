"""Reads the text that a Prometheus endpoint gives: samples with labels. Anything unreadable is counted, not raised.

A line without its line end is unreadable too: the format ends every line with one, so that its number may be cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,)?')
# Numbers as Go's and Python's clients write them; Python's own float() takes more, such as 1_000.
_VALUE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:Inf|inf)|NaN|nan", re.ASCII)
_TYPE = re.compile(r"# TYPE (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*) ")
_TIMESTAMP = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True)
class Sample:
    """One line: the exposed name (with _total, _bucket, …), its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Exposition:
    """All samples of a page; unread: how many lines were neither sample nor comment; declared: the names that the page
    gives a type.
    """

    samples: tuple[Sample, ...] = ()
    unread: int = 0
    declared: frozenset[str] = frozenset()

    def named(self, name: str, **labels: str) -> Iterator[Sample]:
        """The samples of a name with these labels, whatever other labels they have."""
        for sample in self.samples:
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items()):
                yield sample


def parse_exposition(text: str) -> Exposition:
    """Read a page in the Prometheus or OpenMetrics text format."""
    samples: list[Sample] = []
    unread = 0
    declared: set[str] = set()
    *lines, rest = text.split("\n")
    if rest.strip() and not rest.lstrip().startswith("#"):
        unread += 1
    for line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            if found := _TYPE.match(stripped):
                declared.add(found["name"])
            continue
        sample = _read_sample(stripped)
        if sample is None:
            unread += 1
        else:
            samples.append(sample)
    return Exposition(tuple(samples), unread, frozenset(declared))


def _read_sample(line: str) -> Sample | None:
    name = _NAME.match(line)
    if name is None:
        return None
    rest = line[name.end() :]
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        parsed = _read_labels(rest[1:])
        if parsed is None:
            return None
        labels, rest = parsed
    # A timestamp may follow the value, and an exemplar that.
    words = rest.partition(" #")[0].split()
    if not 1 <= len(words) <= 2 or not _VALUE.fullmatch(words[0]) or not all(map(_TIMESTAMP.fullmatch, words[1:])):
        return None
    return Sample(name[0], labels, float(words[0]))


def _read_labels(text: str) -> tuple[dict[str, str], str] | None:
    labels: dict[str, str] = {}
    position = 0
    while match := _LABEL.match(text, position):
        labels[match[1]] = re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape[0]], match[2])
        position = match.end()
        if not match[3]:
            break
    rest = text[position:].lstrip()
    return (labels, rest[1:]) if rest.startswith("}") else None
