"""From witnesses to verdict: one table. The first row that matches gives the verdict; the last one always does.

All witnesses answer one question: does speculation work here? An unknown appears only in cells that say so, so it never
counts as a yes. A row that says speculating or baseline admits no contrary reading, so one yes never outvotes a no:
witnesses that contradict each other fall through to cannot-tell, whose sentence names both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine import decode
from engine.findings import Problems
from validation.verdict import Outcome, Reading, Says, Witness, WitnessName

ON, OFF, DIFFERS = Reading.ON, Reading.OFF, Reading.DIFFERS
INERT, CORRUPT, UNKNOWN = Reading.INERT, Reading.CORRUPT, Reading.UNKNOWN

Readings = Mapping[WitnessName, Reading]

# The readings that a witness can give; the tables of the tests and of the documentation are made from it.
POSSIBLE: dict[WitnessName, tuple[Reading, ...]] = {
    WitnessName.DECLARED_ARGS: (ON, OFF),
    WitnessName.LIVE_ARGS: (ON, OFF, DIFFERS, UNKNOWN),
    WitnessName.ENGINE_LOG: (ON, OFF, DIFFERS, UNKNOWN),
    WitnessName.METRICS: (ON, OFF, INERT, UNKNOWN),
    WitnessName.BEHAVIOUR: (ON, OFF, DIFFERS, CORRUPT, UNKNOWN),
}
ANY: tuple[Reading, ...] = ()
# The table's place in a document.
BEGIN, END = "<!-- rules: written by python -m validation rules --write -->", "<!-- end of rules -->"


@dataclass(frozen=True)
class Row:
    """One row: the readings that each witness may have (ANY: all), what else must hold, the verdict, and why."""

    declared: tuple[Reading, ...]
    live: tuple[Reading, ...]
    log: tuple[Reading, ...]
    metrics: tuple[Reading, ...]
    behaviour: tuple[Reading, ...]
    verdict: Outcome
    reason: str
    condition: str = ""

    def matches(self, readings: Readings) -> bool:
        """Whether all cells admit the readings and the condition holds."""
        cells = zip(WitnessName, (self.declared, self.live, self.log, self.metrics, self.behaviour), strict=True)
        return all(not cell or readings[name] in cell for name, cell in cells) and _CONDITIONS[self.condition](readings)


def _at_least(count: int, reading: Reading, names: Sequence[WitnessName]) -> Callable[[Readings], bool]:
    return lambda readings: sum(readings[name] is reading for name in names) >= count


_CONFIGURED = (WitnessName.LIVE_ARGS, WitnessName.ENGINE_LOG)
_CLUSTER = (*_CONFIGURED, WitnessName.METRICS)
_ENGINE = (WitnessName.ENGINE_LOG, WitnessName.METRICS)
_CONDITIONS: dict[str, Callable[[Readings], bool]] = {
    "": lambda _: True,
    "live args or log says on": _at_least(1, ON, _CONFIGURED),
    "one of live args, log, metrics says off": _at_least(1, OFF, _CLUSTER),
    "two of live args, log, metrics say off, log or metrics among them": lambda readings: (
        _at_least(2, OFF, _CLUSTER)(readings) and _at_least(1, OFF, _ENGINE)(readings)
    ),
}

TABLE: tuple[Row, ...] = (
    Row(
        ANY, ANY, ANY, ANY, (CORRUPT,), Outcome.CORRUPT,
        "a wrong answer is wrong whatever the rest says",
    ),
    Row(
        (ON,), ANY, (OFF, UNKNOWN), (OFF, UNKNOWN), ANY, Outcome.OFF,
        "declared, and nothing in the engine shows it; live args are only what was asked of the engine",
        "one of live args, log, metrics says off",
    ),
    Row(
        ANY, (ON, UNKNOWN), (ON, UNKNOWN), (INERT,), (ON, OFF), Outcome.INERT,
        "the counters exist and (nearly) nothing was accepted while a copy was written",
    ),
    Row(
        ANY, (ON, UNKNOWN), (ON, UNKNOWN), (ON,), (ON,), Outcome.SPECULATING,
        "configured, drafts accepted, several tokens a step, sound answer; start-up lines or pod may be out of sight",
        "live args or log says on",
    ),
    Row(
        (OFF,), (OFF, UNKNOWN), (OFF, UNKNOWN), (OFF, UNKNOWN), (ON, OFF), Outcome.BASELINE,
        "absence needs proof; several tokens in a chunk are none, since a slow reader merges chunks",
        "two of live args, log, metrics say off, log or metrics among them",
    ),
    Row(
        ANY, ANY, ANY, ANY, ANY, Outcome.CANNOT_TELL,
        "the witnesses contradict each other, or too few could say anything",
    ),
)  # fmt: skip


def decide(readings: Readings) -> Outcome:
    """The verdict of the first row that matches."""
    return next(row.verdict for row in TABLE if row.matches(readings))


def sentence(outcome: Outcome, witnesses: Sequence[Witness]) -> str:
    """The verdict in one sentence that names the witnesses it rests on, and both sides where they disagree."""
    by_name = {witness.name: witness for witness in witnesses}
    declared = by_name[WitnessName.DECLARED_ARGS].reading is ON
    text = _opening(outcome, by_name, declared=declared)
    unknown = [f"{_label(w)} ({w.why})" for w in witnesses if w.says is Says.UNKNOWN]
    if unknown:
        text += f"; not known from {_join(unknown)}"
    return text + "."


def _opening(outcome: Outcome, by_name: Mapping[WitnessName, Witness], *, declared: bool) -> str:
    behaviour = by_name[WitnessName.BEHAVIOUR]
    if outcome is Outcome.SPECULATING:
        told = _join([_label(w) for w in by_name.values() if w.says is Says.YES])
        return f"Speculation works: {told} agree" + ("" if declared else "; but the recipe declares none")
    if outcome is Outcome.BASELINE:
        return (
            "The engine runs without speculation, as declared: "
            + _join([_label(by_name[name]) for name in _CLUSTER if by_name[name].reading is OFF])
            + " agree"
        )
    if outcome is Outcome.INERT:
        return "Speculation is on and does nothing: " + _first(by_name[WitnessName.METRICS])
    if outcome is Outcome.OFF:
        off = [f"{_label(w)}: {_first(w)}" for w in by_name.values() if w.reading is OFF and w.name in _CLUSTER]
        return "The recipe declares speculation and the engine runs without it: " + "; ".join(off)
    if outcome is Outcome.CORRUPT:
        return "The answer is not sound: " + _first(behaviour)
    return _cannot_tell(by_name)


def _cannot_tell(by_name: Mapping[WitnessName, Witness]) -> str:
    witnesses = by_name.values()
    differing = [w for w in witnesses if w.reading is DIFFERS]
    if differing:
        sides = "; ".join(f"{_label(w)}: {_first(w)}" for w in differing)
        return f"What runs is not what the recipe declares ({_first(by_name[WitnessName.DECLARED_ARGS])}): {sides}"
    yes = [f"{_label(w)} ({_first(w)})" for w in witnesses if w.says is Says.YES]
    no = [f"{_label(w)} ({_first(w)})" for w in witnesses if w.says is Says.NO]
    if yes and no:
        return f"The witnesses disagree: {_join(yes)} for speculation, {_join(no)} against it"
    return "Too little could be seen to say whether speculation works"


def _label(witness: Witness) -> str:
    return str(witness.name).replace("_", " ")


def _first(witness: Witness) -> str:
    return witness.evidence[0] if witness.evidence else str(witness.reading)


def _join(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def markdown() -> str:
    """The table for docs/validation.md."""
    lines = [
        "| # | declared args | live args | engine log | metrics | behaviour | and | verdict | because |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for number, row in enumerate(TABLE, 1):
        cells = [_cell(cell) for cell in (row.declared, row.live, row.log, row.metrics, row.behaviour)]
        lines.append(f"| {number} | {' | '.join(cells)} | {row.condition} | **{row.verdict}** | {row.reason} |")
    return "\n".join(lines)


def _cell(readings: tuple[Reading, ...]) -> str:
    return ", ".join(readings) if readings else "any"


def written_into(document: str) -> str:
    """The document with the table between its two marker lines brought up to date."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise Problems([decode.error("document", None, f"the lines {BEGIN} and {END} are not in it")])
    return f"{head}{BEGIN}\n\n{markdown()}\n\n{END}{tail}"
