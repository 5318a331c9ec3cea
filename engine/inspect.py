"""What a log and two scrapes of /metrics prove about one engine, witness by witness.

A verdict needs a witness of the running engine: the start-up line, SpecDecoding lines or the counters. The args line
shows what was asked for; it is compared with the others but proves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from engine.causes import Cause, engine_died, explain_log
from engine.log import EngineLog, parse_log
from engine.metrics import SpeculationDelta, Totals, parse_metrics, speculation_delta
from engine.speculative import resolve
from engine.versions import EngineVersion

Says = Literal["on", "off", "unknown"]


class Outcome(StrEnum):
    """What is proven about speculation."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"
    INERT = "inert"
    CONTRADICTION = "contradiction"


# Exit status of `python -m engine inspect`; 2 is wrong usage or an unreadable file.
EXIT_CODES = {Outcome.ON: 0, Outcome.OFF: 1, Outcome.UNKNOWN: 3, Outcome.INERT: 4, Outcome.CONTRADICTION: 4}


@dataclass(frozen=True)
class Witness:
    """One source and what it says; evidence: the words or numbers it says it with."""

    name: str
    says: Says
    evidence: str


@dataclass(frozen=True)
class Inspection:
    """The outcome with its witnesses, facts as (name, text), what does not fit, and the error of a dead engine."""

    outcome: Outcome
    witnesses: tuple[Witness, ...]
    facts: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    error: str | None = None
    cause: Cause | None = None

    def text(self) -> str:
        """For a terminal."""
        width = max(len(name) for name in [*(w.name for w in self.witnesses), *(name for name, _ in self.facts)])
        lines = [f"{w.name:{width}}  {w.says}: {w.evidence}" for w in self.witnesses]
        lines += [f"{name:{width}}  {text}" for name, text in self.facts]
        lines += [f"problem: {problem}" for problem in self.problems]
        if self.error:
            lines.append(f"last error: {self.error}")
        if self.cause:
            lines.append(f"cause: {self.cause.line()}")
        return "\n".join([*lines, f"speculation: {self.outcome}"])

    def to_json(self) -> dict[str, object]:
        """The same as one JSON object."""
        return {
            "outcome": str(self.outcome),
            "witnesses": [vars(witness) for witness in self.witnesses],
            "facts": dict(self.facts),
            "problems": list(self.problems),
            "error": self.error,
            "cause": None if self.cause is None else {"id": self.cause.id, "text": self.cause.line()},
        }


def inspect(log_text: str, scrapes: tuple[str, str] | None = None) -> Inspection:
    """Look at a log, and at two scrapes of the same engine when given."""
    log = parse_log(log_text)
    delta, totals = _metrics(log, scrapes)
    witnesses = tuple(_witnesses(log, delta))
    problems = [*log.problems, *_disagreements(log, delta, totals)]
    outcome = _outcome(witnesses, delta)
    if outcome is Outcome.INERT and delta and delta.inert:
        problems.append(delta.inert)
    if outcome is not Outcome.UNKNOWN and problems and outcome is not Outcome.INERT:
        outcome = Outcome.CONTRADICTION
    error, cause = (None, None) if log.ready and not engine_died(log_text) else explain_log(log_text)
    return Inspection(outcome, witnesses, tuple(_facts(log, delta)), tuple(problems), error, cause)


def _metrics(log: EngineLog, scrapes: tuple[str, str] | None) -> tuple[SpeculationDelta | None, Totals | None]:
    if scrapes is None:
        return None, None
    before, after = (parse_metrics(text) for text in scrapes)
    name = _model_label(log)
    model = name if name in after.models else None
    delta = speculation_delta(before, after, model, k=log.speculation.num_speculative_tokens)
    label = model or (after.models[0] if len(after.models) == 1 else None)
    return delta, after.totals(label) if label else None


def _model_label(log: EngineLog) -> str | None:
    served = (log.args or {}).get("served_model_name")
    if isinstance(served, list) and served and isinstance(served[0], str):
        return served[0]
    return log.model


def _witnesses(log: EngineLog, delta: SpeculationDelta | None) -> Iterator[Witness]:
    start = log.speculation
    evidence = start.evidence or ("the line has no speculative_config" if log.starts else "no start-up line")
    yield Witness("start-up line", start.state, evidence)
    drafted = sum(window.drafted for window in log.spec_windows)
    accepted = sum(window.accepted for window in log.spec_windows)
    shown = f"{len(log.spec_windows)} SpecDecoding lines, {drafted} tokens drafted, {accepted} accepted"
    yield Witness(
        "periodic lines", "on" if drafted else "unknown", shown if log.spec_windows else "no SpecDecoding line"
    )
    if delta is None:
        return
    if delta.state == "measured":
        numbers = f"{delta.drafts} drafts, {delta.draft_tokens} tokens drafted, {delta.accepted} accepted"
        yield Witness("metrics", "on", numbers)
    else:
        yield Witness("metrics", "off" if delta.state == "off" else "unknown", delta.reason)


def _outcome(witnesses: tuple[Witness, ...], delta: SpeculationDelta | None) -> Outcome:
    said = {witness.says for witness in witnesses} - {"unknown"}
    if said == {"on"}:
        return Outcome.INERT if delta and delta.inert else Outcome.ON
    if said == {"off"}:
        return Outcome.OFF
    return Outcome.CONTRADICTION if said else Outcome.UNKNOWN


def _disagreements(log: EngineLog, delta: SpeculationDelta | None, totals: Totals | None) -> Iterator[str]:
    start, asked = log.speculation, log.speculative_args
    if log.args is not None and start.state != "unknown":
        if (asked is not None) != (start.state == "on"):
            given = "ask for speculation" if asked is not None else "do not ask for speculation"
            yield f"the args {given}, and the engine started with speculation {start.state}"
        config = resolve(asked) if asked else None
        if config and start.state == "on":
            if start.method != config.method:
                yield f"the args ask for method {config.method}, and the engine started with {start.method}"
            if start.num_speculative_tokens != config.num_speculative_tokens:
                k = start.num_speculative_tokens
                yield f"the args ask for k={config.num_speculative_tokens}, and the engine started with k={k}"
    if delta is not None:
        yield from delta.problems
    accepted = sum(window.accepted for window in log.spec_windows)
    if totals is not None and totals.accepted is not None and log.starts == 1 and accepted > totals.accepted:
        yield f"the log counts {accepted} accepted tokens, and the metrics {totals.accepted:.0f}"


def _facts(log: EngineLog, delta: SpeculationDelta | None) -> Iterator[tuple[str, str]]:
    if log.version:
        version = EngineVersion.of_text(log.version)
        note = f" ({version.finding.why})" if version.finding else ""
        yield "engine", f"vLLM {log.version}{note}, model {log.model or 'unknown'}"
    elif log.model:
        yield "engine", f"model {log.model}"
    config = resolve(log.speculative_args) if log.speculative_args else None
    if config and config.is_ngram:
        window = f"n-grams of {config.lookup_min} to {config.lookup_max} tokens"
        yield "args", f"method {config.method}, k={config.num_speculative_tokens}, {window}"
    elif log.args is not None:
        yield "args", "no speculative config" if not log.speculative_args else f"{dict(log.speculative_args)}"
    elif log.args_line:
        yield "args", "the line is no Python literal, so what was asked for is not known"
    if log.runner:
        yield "model runner", log.runner
    if log.async_scheduling is not None:
        yield "async scheduling", "on" if log.async_scheduling else "off"
    if log.kv_cache:
        yield "KV cache", f"{log.kv_cache.tokens} tokens ({log.kv_cache.device})"
    if delta is not None:
        yield from _rates(delta)


def _rates(delta: SpeculationDelta) -> Iterator[tuple[str, str]]:
    if delta.generated is not None:
        yield "generated", f"{delta.generated} tokens, {delta.finished or 0} requests finished"
    if delta.acceptance_rate is not None and delta.mean_acceptance_length is not None:
        length = f"mean acceptance length {delta.mean_acceptance_length:.2f}"
        yield "acceptance", f"{delta.acceptance_rate:.1%} of drafted tokens, {length} (drafted steps only)"
    if delta.tokens_per_step is not None and delta.coverage is not None:
        yield (
            "all steps",
            f"{delta.tokens_per_step:.2f} tokens a step, {delta.coverage:.1%} of tokens from drafted steps",
        )
