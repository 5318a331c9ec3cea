"""The verdict of one validation: one versioned JSON document that lists its witnesses.

Written by the Job into a ConfigMap, read by the stack, by people and by later checks of a running stack. Reading is
strict: a document that this code does not know fully is refused with a finding for each thing that is wrong.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from enum import StrEnum

from engine import decode
from engine.findings import Problems

# Raised when a field changes its meaning or goes away; readers refuse any other number.
SCHEMA = 1
# Key of the document in the result ConfigMap's data.
RESULT_KEY = "verdict.json"
_WIDTH = 100  # columns of a terminal that most people have


class Outcome(StrEnum):
    """What was found. The words are the machine names; the table in rules.py says when each is given."""

    SPECULATING = "speculating"
    BASELINE = "baseline"
    INERT = "on-but-inert"
    OFF = "declared-but-off"
    CORRUPT = "corrupt-output"
    CANNOT_TELL = "cannot-tell"


class Says(StrEnum):
    """A witness's answer to the one question that all are asked: does speculation work here?"""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Reading(StrEnum):
    """What a witness saw, finer than yes and no: the rules need the kind of a no."""

    ON = "on"  # speculation declared, configured, accepting drafts, or seen in the stream
    OFF = "off"  # none declared, none configured, no series, one token a step
    DIFFERS = "differs"  # not what the recipe declares: another config, flag, version or thinking
    INERT = "inert"  # on, and no draft, or hardly one, was accepted
    CORRUPT = "corrupt"  # the answer is empty, garbage or a loop
    UNKNOWN = "unknown"  # could not be seen; the witness says why

    @property
    def says(self) -> Says:
        """The answer that this reading gives."""
        if self is Reading.ON:
            return Says.YES
        return Says.UNKNOWN if self is Reading.UNKNOWN else Says.NO


class WitnessName(StrEnum):
    """The five witnesses, in the order in which they are told."""

    DECLARED_ARGS = "declared_args"
    LIVE_ARGS = "live_args"
    ENGINE_LOG = "engine_log"
    METRICS = "metrics"
    BEHAVIOUR = "behaviour"


@dataclass(frozen=True)
class Witness:
    """One witness: what it saw, where, when.

    says: its answer (always the one that belongs to `reading`); evidence: what was read, redacted, a line each;
    source: where it was read (an object, a log, a URL); time: when, RFC 3339 in UTC; why: for unknown, what prevented
    an answer; otherwise "".
    """

    name: WitnessName
    reading: Reading
    says: Says
    evidence: tuple[str, ...]
    source: str
    time: str
    why: str = ""


@dataclass(frozen=True)
class Numbers:
    """What was counted while the probe ran, summed over the replicas, and under which conditions.

    Counters are differences between two scrapes. acceptance_length: tokens per step with a draft, bonus token included
    (1 + accepted/drafts); acceptance_rate: accepted/draft_tokens, 0 to 1; both None without a draft.
    accepted_per_position[i]: drafts with more than i accepted tokens. tokens_per_chunk: completion tokens per streamed
    chunk, None without a chunk.
    """

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    acceptance_length: float | None
    acceptance_rate: float | None
    accepted_per_position: tuple[int, ...]
    prompt_tokens: int
    completion_tokens: int
    chunks: int
    tokens_per_chunk: float | None
    conditions: str


@dataclass(frozen=True)
class Verdict:
    """The result of one validation run.

    verdict: what was found; declared: what the recipe declares (speculating or baseline); ok: the two are the same;
    sentence: the verdict in one sentence; witnesses: one for each WitnessName, in that order; run: the stack's id of
    this run; engine_version: as the engine says it, "" when unknown; started, ended: RFC 3339 in UTC; notes: what has
    to be said beside the verdict (rules of another version in use, evidence kept earlier, parts that were not seen).
    """

    verdict: Outcome
    declared: Outcome
    ok: bool
    sentence: str
    witnesses: tuple[Witness, ...]
    numbers: Numbers | None
    run: str
    engine_version: str
    started: str
    ended: str
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    def witness(self, name: WitnessName) -> Witness:
        """The witness of that name."""
        return next(witness for witness in self.witnesses if witness.name is name)

    def to_json(self) -> str:
        """The document: one line, keys in the order of the fields, schema first."""
        fields = asdict(self)
        return json.dumps({"schema": fields.pop("schema"), **fields}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Verdict:
        """Read a document; Problems names everything in it that is not known here or contradicts itself."""
        document = decode.load_object(text, "verdict")
        decode.require_schema(document, SCHEMA, "verdict")
        verdict = decode.build(cls, document, "verdict")
        contradictions = list(_contradictions(verdict))
        if contradictions:
            raise Problems([decode.error(path, value, why) for path, value, why in contradictions])
        return verdict

    def text(self) -> str:
        """The verdict for a terminal: the sentence, a line for each witness, the numbers with their conditions."""
        mark = "OK" if self.ok else "WRONG"
        lines = textwrap.wrap(f"{mark}: {self.verdict} (declared: {self.declared}). {self.sentence}", _WIDTH)
        for witness in self.witnesses:
            first = witness.why if witness.says is Says.UNKNOWN else next(iter(witness.evidence), "")
            label = str(witness.name).replace("_", " ")
            line = f"{label:<14} {witness.says:<8} {first}"
            lines.append(line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…")
        if self.numbers:
            lines += textwrap.wrap(_numbers_text(self.numbers), _WIDTH)
        for note in self.notes:
            lines += textwrap.wrap(f"note: {note}", _WIDTH)
        return "\n".join(lines)


def _numbers_text(numbers: Numbers) -> str:
    parts = [f"{numbers.completion_tokens} tokens in {numbers.chunks} chunks"]
    if numbers.acceptance_length is not None and numbers.acceptance_rate is not None:
        parts.append(
            f"{numbers.drafts} drafts, {numbers.accepted_tokens} of {numbers.draft_tokens} draft tokens accepted "
            f"({numbers.acceptance_rate:.0%}), mean acceptance length {numbers.acceptance_length:.2f}"
        )
    else:
        parts.append("no draft")
    return f"{'; '.join(parts)} ({numbers.conditions})"


def _contradictions(verdict: Verdict) -> list[tuple[str, object, str]]:
    """(path, value, why) of what a document says twice and differently."""
    found: list[tuple[str, object, str]] = []
    if verdict.declared not in {Outcome.SPECULATING, Outcome.BASELINE}:
        found.append(("verdict.declared", str(verdict.declared), "a recipe declares speculating or baseline"))
    if verdict.ok is not (verdict.verdict is verdict.declared):
        found.append(("verdict.ok", verdict.ok, f"the verdict is {verdict.verdict}, declared is {verdict.declared}"))
    names = tuple(witness.name for witness in verdict.witnesses)
    if names != tuple(WitnessName):
        found.append(("verdict.witnesses", [str(name) for name in names], "each witness is named once, in order"))
    for index, witness in enumerate(verdict.witnesses):
        if witness.says is not witness.reading.says:
            path = f"verdict.witnesses[{index}].says"
            found.append((path, str(witness.says), f"the reading {witness.reading} says {witness.reading.says}"))
        if (witness.says is Says.UNKNOWN) is not bool(witness.why):
            path = f"verdict.witnesses[{index}].why"
            found.append((path, witness.why, "an unknown, and only an unknown, says why"))
    return found
