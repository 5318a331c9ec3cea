"""The counters: what they say of each engine between two scrapes, and the sums over all of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.metrics import Metrics, SpeculationDelta, parse_metrics, speculation_delta
from validation.http import HttpError, get
from validation.probe import Answer
from validation.verdict import Numbers, Reading
from validation.witnesses import Sight, seen, unseen

# Below this share of accepted draft tokens, speculation does nothing useful while a copy is written: working n-gram
# speculation has 25 to 95 % there (the low end is a version that pads every draft), the inert ones seen 0 to 1.2 %.
ACCEPTANCE_FLOOR = 0.05
# The engine counts a request's last tokens a moment after it has sent them.
_SETTLE_S = 3.0
_SETTLE_STEP_S = 0.1


@dataclass(frozen=True)
class Scrape:
    """One scrape; metrics: None when it failed, and then why."""

    url: str
    metrics: Metrics | None = None
    why: str = ""


def scrape(url: str) -> Scrape:
    """GET a page of metrics; a failure is kept as a reason."""
    try:
        return Scrape(url, parse_metrics(get(url)))
    except HttpError as problem:
        return Scrape(url, why=str(problem))


def difference(before: Scrape, after: Scrape, model: str) -> SpeculationDelta:
    """What was counted between two scrapes of one engine; a failed scrape is an unknown."""
    if before.metrics is None or after.metrics is None:
        return SpeculationDelta("unknown", before.why or after.why)
    # A page of one pod has one model, whatever name clients use for it.
    label = model if model in after.metrics.models else None
    return speculation_delta(before.metrics, after.metrics, label)


def settle(before: Scrape, model: str, tokens: int) -> tuple[Scrape, SpeculationDelta]:
    """Scrape again until the counters hold at least `tokens` generated tokens, or for a moment only."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        after = scrape(before.url)
        delta = difference(before, after, model)
        counted = delta.generated is not None and delta.generated >= tokens
        if counted or delta.state in {"reset", "unknown"} or time.monotonic() >= deadline:
            return after, delta
        time.sleep(_SETTLE_STEP_S)


def metrics_sight(url: str, delta: SpeculationDelta, tokens: int) -> Sight:
    """The counters of one engine; tokens: how many the probe is known to have made it generate."""
    why = _why_unknown(delta, tokens)
    if why:
        return unseen(why, url)
    if delta.state == "off":
        return seen(Reading.OFF, [f"no counters of speculation; {delta.generated} tokens generated"], url)
    counted = f"{delta.drafts} drafts, {delta.accepted} of {delta.draft_tokens} draft tokens accepted"
    positions = "accepted by position: " + ", ".join(str(count) for count in delta.per_position)
    rate = delta.acceptance_rate
    if delta.inert or rate is None:
        return seen(Reading.INERT, [f"{counted} over {delta.generated} generated tokens"], url)
    if rate < ACCEPTANCE_FLOOR:
        low = f"{counted} ({rate:.1%}) while a copy was written, below the floor of {ACCEPTANCE_FLOOR:.0%}"
        return seen(Reading.INERT, [low, positions], url)
    length = f"mean acceptance length {delta.mean_acceptance_length or 1.0:.2f}"
    told = f"{counted} ({rate:.0%}), {length}, {delta.generated} tokens generated"
    return seen(Reading.ON, [told, positions], url)


def _why_unknown(delta: SpeculationDelta, tokens: int) -> str:
    """Why a difference says nothing, "" when it does."""
    if delta.state == "reset":
        return f"the counters were reset: {delta.reason}"
    if delta.state == "unknown":
        return delta.reason or "no metrics"
    if delta.generated is None or delta.generated < tokens:
        return (
            f"the counters show {delta.generated or 0} generated tokens where the probe got {tokens}: "
            "they stand still (--disable-log-stats), or belong to another engine"
        )
    if delta.problems:
        return f"the counters contradict themselves: {'; '.join(delta.problems)}"
    if delta.state == "measured" and not delta.generated:
        return "the counters of speculation are there, but nothing was generated while they were watched"
    return ""


def numbers(
    deltas: Mapping[str, SpeculationDelta], answers: Sequence[Answer], seconds: float, drafted: Collection[str] = ()
) -> Numbers:
    """The sums over all engines and answers, with their conditions; drafted: what each engine counts as a draft."""
    measured = [delta for delta in deltas.values() if delta.state == "measured"]
    drafts = sum(delta.drafts or 0 for delta in measured)
    draft_tokens = sum(delta.draft_tokens or 0 for delta in measured)
    accepted = sum(delta.accepted or 0 for delta in measured)
    width = max((len(delta.per_position) for delta in measured), default=0)
    positions = [sum(delta.per_position[i] for delta in measured if i < len(delta.per_position)) for i in range(width)]
    tokens, chunks = sum(answer.tokens for answer in answers), sum(answer.chunks for answer in answers)
    tasks = " and ".join(dict.fromkeys(answer.task.name for answer in answers))
    return Numbers(
        drafts=drafts,
        draft_tokens=draft_tokens,
        accepted_tokens=accepted,
        acceptance_length=round(1 + accepted / drafts, 4) if drafts else None,
        acceptance_rate=round(accepted / draft_tokens, 4) if draft_tokens else None,
        accepted_per_position=tuple(positions),
        prompt_tokens=sum(answer.prompt_tokens for answer in answers),
        completion_tokens=tokens,
        chunks=chunks,
        tokens_per_chunk=round(tokens / chunks, 4) if chunks else None,
        conditions=(
            f"{len(answers)} requests one after the other ({tasks} task), temperature 0; counters of {len(measured)} "
            f"of {len(deltas)} engines over {seconds:.1f} s, {_others(deltas, answers)}; length counts drafted steps"
            + "".join(f"; drafted are {what}" for what in sorted(drafted) if measured)
        ),
    )


def _others(deltas: Mapping[str, SpeculationDelta], answers: Sequence[Answer]) -> str:
    """Whether the counters hold other people's requests as well."""
    counts = [delta.finished for delta in deltas.values()]
    if not counts or any(count is None for count in counts):
        return "other requests in them unknown"
    others = sum(count or 0 for count in counts) - sum(1 for answer in answers if answer.completion)
    return f"{others} other requests in them" if others > 0 else "no other request in them"
