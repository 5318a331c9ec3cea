"""What a witness saw of one subject, and how the pods of several replicas are told as one.

Evidence is redacted and shortened here, where it is taken: nothing downstream sees a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.redact import redact
from validation.verdict import Reading, Witness, WitnessName

# Evidence is for reading, and the result is one ConfigMap: a line is cut here (bytes), and a witness has so many lines.
LINE_LIMIT = 400
LINES_LIMIT = 12
# Which reading is told when pods differ: the first of these that any pod has.
_WORST_WHEN_DECLARED = (
    Reading.CORRUPT, Reading.OFF, Reading.DIFFERS, Reading.INERT, Reading.UNKNOWN, Reading.ON,
)  # fmt: skip
_WORST_WHEN_NOT = (
    Reading.CORRUPT, Reading.ON, Reading.INERT, Reading.DIFFERS, Reading.UNKNOWN, Reading.OFF,
)  # fmt: skip


@dataclass(frozen=True)
class Sight:
    """What one witness saw of one subject; the first line of evidence is the one that is quoted."""

    reading: Reading
    evidence: tuple[str, ...]
    source: str
    why: str = ""


def now() -> str:
    """The time as the documents have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seen(reading: Reading, evidence: Iterable[str], source: str) -> Sight:
    """A sight with an answer."""
    return Sight(reading, tuple(evidence), source)


def unseen(why: str, source: str, evidence: Iterable[str] = ()) -> Sight:
    """A sight without one."""
    return Sight(Reading.UNKNOWN, tuple(evidence), source, why)


def combine(name: WitnessName, sights: Mapping[str, Sight], *, declared: bool) -> Witness:
    """One witness from what was seen of each subject (a pod's name, or "" for a single thing)."""
    order = _WORST_WHEN_DECLARED if declared else _WORST_WHEN_NOT
    worst = min((sight.reading for sight in sights.values()), key=order.index)
    # Those that decide come first, so that the line that is quoted belongs to the reading.
    ordered = sorted(sights.items(), key=lambda item: (item[1].reading is not worst, item[0]))
    several = len(sights) > 1
    evidence = [f"{subject}: {line}" if several else line for subject, sight in ordered for line in sight.evidence]
    whys = [f"{subject}: {sight.why}" if several else sight.why for subject, sight in ordered if sight.why]
    unknown = worst is Reading.UNKNOWN
    return Witness(
        name=name,
        reading=worst,
        says=worst.says,
        evidence=tuple(clean(line) for line in (evidence if unknown else evidence + whys)[:LINES_LIMIT]),
        source=clean(", ".join(dict.fromkeys(sight.source for _, sight in ordered))),
        time=now(),
        why=clean("; ".join(whys)) if unknown else "",
    )


def clean(line: str, limit: int = LINE_LIMIT) -> str:
    """One line of evidence: without secrets and control characters, on one line, of at most `limit` bytes of UTF-8."""
    text = " ".join("".join(char if char.isprintable() else " " for char in redact(line)).split())
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"
