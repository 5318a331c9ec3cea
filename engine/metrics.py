"""What an engine's /metrics say about speculation: totals of one model, and the difference of two scrapes.

The counters exist only when speculation is on, so their absence on a page that has others of the model proves that it
is off. Engines of one model (label `engine`) are summed. A counter that went back, or another process behind the same
address, makes the difference meaningless: it is then reported as reset, never clamped. A page with lines that cannot be
read, a series twice, or a part of the series only, proves nothing: unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from engine.exposition import Exposition, Sample, parse_exposition

Labels = tuple[tuple[str, str], ...]

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATED = "vllm:generation_tokens_total"
FINISHED = "vllm:request_success_total"
PREFIX_QUERIES = "vllm:prefix_cache_queries_total"
PREFIX_HITS = "vllm:prefix_cache_hits_total"
# Counters whose difference is taken; all are registered at start.
COUNTERS = (DRAFTS, DRAFT_TOKENS, ACCEPTED, GENERATED, FINISHED, PREFIX_QUERIES, PREFIX_HITS)
SPECULATION = (DRAFTS, DRAFT_TOKENS, ACCEPTED)
PROCESS_START = "process_start_time_seconds"
# For dashboards: a gauge (0 to 1 in spite of its name) and histograms in seconds. A step's latency is observed once for
# each step of a request after its first token, however many tokens the step has, so it is no TPOT, but counts steps.
CACHE_USAGE = "vllm:kv_cache_usage_perc"
TIME_TO_FIRST_TOKEN = "vllm:time_to_first_token_seconds"
TIME_PER_OUTPUT_TOKEN = "vllm:request_time_per_output_token_seconds"
STEP_LATENCY = "vllm:inter_token_latency_seconds"
# Beyond it a number is no count of tokens (and its sums no integers).
_LARGEST = float(2**63)


@dataclass(frozen=True)
class Totals:
    """Counters of one model summed over its engines; None: the page has no such counter.

    per_position[i]: drafts accepted beyond position i; engines: the values of the label `engine`; started: start
    times of process and counters (seconds since the epoch), which change with the process; series: counter -> the label
    sets that it has; broken: why the counters are not to be believed, "" when they may be.
    """

    model: str
    engines: tuple[str, ...]
    drafts: float | None
    draft_tokens: float | None
    accepted: float | None
    per_position: tuple[float, ...]
    generated: float | None
    finished: float | None
    prefix_queries: float | None
    prefix_hits: float | None
    started: tuple[tuple[str, float], ...] = ()
    series: Mapping[str, frozenset[Labels]] = field(default_factory=dict, compare=False, repr=False)
    broken: str = ""

    @property
    def speculates(self) -> bool:
        """Whether counters of speculation are registered."""
        return any(self.series.get(name) for name in (*SPECULATION, ACCEPTED_PER_POSITION))


@dataclass(frozen=True)
class Metrics:
    """One scrape of an engine."""

    page: Exposition

    @property
    def models(self) -> tuple[str, ...]:
        """The values of the label model_name, sorted."""
        names = {
            sample.labels["model_name"]
            for sample in self.page.samples
            if sample.name.startswith("vllm:") and "model_name" in sample.labels
        }
        return tuple(sorted(names))

    def totals(self, model: str) -> Totals | None:
        """The counters of a model, None when the page has nothing of it."""
        if model not in self.models:
            return None
        values = {name: self._sum(name, model) for name in COUNTERS}
        found = {name: list(self.page.named(name, model_name=model)) for name in (*COUNTERS, ACCEPTED_PER_POSITION)}
        series = {name: frozenset(_key(sample) for sample in samples) for name, samples in found.items()}
        return Totals(
            model=model,
            engines=self._engines(model),
            drafts=values[DRAFTS],
            draft_tokens=values[DRAFT_TOKENS],
            accepted=values[ACCEPTED],
            per_position=self._per_position(model),
            generated=values[GENERATED],
            finished=values[FINISHED],
            prefix_queries=values[PREFIX_QUERIES],
            prefix_hits=values[PREFIX_HITS],
            started=self._started(model),
            series=series,
            broken=_broken(found, series),
        )

    def _sum(self, name: str, model: str) -> float | None:
        found = [sample.value for sample in self.page.named(name, model_name=model) if math.isfinite(sample.value)]
        return sum(found) if found else None

    def _engines(self, model: str) -> tuple[str, ...]:
        return tuple(
            sorted({sample.labels.get("engine", "") for sample in self.page.named(GENERATED, model_name=model)})
        )

    def _per_position(self, model: str) -> tuple[float, ...]:
        sums: dict[int, float] = {}
        for sample in self.page.named(ACCEPTED_PER_POSITION, model_name=model):
            position = sample.labels.get("position", "")
            if position.isascii() and position.isdigit() and len(position) < 5 and math.isfinite(sample.value):
                sums[int(position)] = sums.get(int(position), 0.0) + sample.value
        return tuple(sums.get(position, 0.0) for position in range(max(sums, default=-1) + 1))

    def _started(self, model: str) -> tuple[tuple[str, float], ...]:
        found = [("process", sample.value) for sample in self.page.named(PROCESS_START)]
        created = GENERATED.replace("_total", "_created")
        found += [
            (f"engine {sample.labels.get('engine', '')}", sample.value)
            for sample in self.page.named(created, model_name=model)
        ]
        return tuple(sorted(found))


@dataclass(frozen=True)
class SpeculationDelta:
    """What happened between two scrapes.

    state: "measured"; "off": the model has no speculation counters; "reset": the engine restarted or another one
    answered; "unknown": the pages do not say. Only a measured one has numbers. drafts: drafted steps; draft_tokens,
    accepted, generated: tokens; problems: what contradicts the counters' definitions.
    """

    state: Literal["measured", "off", "reset", "unknown"]
    reason: str = ""
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted: int | None = None
    per_position: tuple[int, ...] = ()
    generated: int | None = None
    finished: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def acceptance_rate(self) -> float | None:
        """Share of drafted tokens that were accepted; None when nothing was drafted."""
        return self.accepted / self.draft_tokens if self.draft_tokens and self.accepted is not None else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens of a drafted step, bonus token included; steps without a draft do not count (vLLM's definition)."""
        return 1 + self.accepted / self.drafts if self.drafts and self.accepted is not None else None

    @property
    def position_rates(self) -> tuple[float, ...] | None:
        """Share of drafts accepted at least as far as each position."""
        return tuple(count / self.drafts for count in self.per_position) if self.drafts else None

    @property
    def undrafted_tokens(self) -> int | None:
        """Tokens that came one a step, without a draft; accepted tokens cut off at a request's end are not there."""
        if self.generated is None or self.drafts is None or self.accepted is None:
            return None
        return max(0, self.generated - self.drafts - self.accepted)

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens a step over all steps, also those without a draft: the one that bounds the speed-up."""
        if not self.generated or self.drafts is None or self.undrafted_tokens is None:
            return None
        return self.generated / (self.drafts + self.undrafted_tokens)

    @property
    def coverage(self) -> float | None:
        """Share of the generated tokens that came from drafted steps."""
        if not self.generated or self.undrafted_tokens is None:
            return None
        return 1 - self.undrafted_tokens / self.generated

    @property
    def inert(self) -> str | None:
        """Why speculation is on but does nothing, None when it works or nothing was generated."""
        if self.state != "measured" or not self.generated:
            return None
        if not self.drafts:
            return "speculation is on, but nothing was drafted"
        return None if self.accepted else "speculation is on, but no drafted token was accepted"


def parse_metrics(text: str) -> Metrics:
    """Read a scrape; any text is accepted."""
    return Metrics(parse_exposition(text))


def speculation_delta(
    before: Metrics, after: Metrics, model: str | None = None, *, k: int | None = None
) -> SpeculationDelta:
    """The difference of two scrapes of one engine; model: its label, needed when a page has several; k: for checks."""
    name = model
    if name is None:
        if len(after.models) != 1:
            what = f"the models {', '.join(after.models)}: name one" if after.models else "no metrics of vLLM"
            return SpeculationDelta("unknown", f"the page has {what}")
        name = after.models[0]
    old, new = before.totals(name), after.totals(name)
    if old is None or new is None:
        there = ", ".join((before if old is None else after).models) or "no model"
        return SpeculationDelta("unknown", f"no metrics of model {name}; the page has {there}")
    if broken := old.broken or new.broken or _unread(before, after):
        return SpeculationDelta("unknown", broken)
    if reason := _reset(before, after, old, new):
        return SpeculationDelta("reset", reason)
    return _incomplete(after, old, new) or _measured(old, new, k)


def _measured(old: Totals, new: Totals, k: int | None) -> SpeculationDelta:
    generated, finished = _difference(old.generated, new.generated), _difference(old.finished, new.finished)
    if not new.speculates:
        return SpeculationDelta("off", "no counters of speculation", generated=generated, finished=finished)
    width = max(len(old.per_position), len(new.per_position))
    earlier = old.per_position + (0.0,) * (width - len(old.per_position))
    later = new.per_position + (0.0,) * (width - len(new.per_position))
    delta = SpeculationDelta(
        "measured",
        drafts=_difference(old.drafts, new.drafts),
        draft_tokens=_difference(old.draft_tokens, new.draft_tokens),
        accepted=_difference(old.accepted, new.accepted),
        per_position=tuple(round(b - a) for a, b in zip(earlier, later, strict=True)),
        generated=generated,
        finished=finished,
    )
    return replace(delta, problems=tuple(contradictions(delta, k)))


def contradictions(delta: SpeculationDelta, k: int | None = None) -> list[str]:
    """What in a measured difference breaks the counters' definitions; k: num_speculative_tokens, if known."""
    drafts, tokens, accepted = delta.drafts or 0, delta.draft_tokens or 0, delta.accepted or 0
    found = []
    if accepted > tokens:
        found.append(f"{accepted} tokens accepted of {tokens} drafted")
    limit = k or len(delta.per_position)
    if limit and tokens > limit * drafts:
        found.append(f"{tokens} tokens drafted in {drafts} drafts of at most {limit}")
    if tokens < drafts:
        found.append(f"{drafts} drafts of only {tokens} tokens")
    if delta.per_position and sum(delta.per_position) != accepted:
        found.append(f"accepted tokens by position sum to {sum(delta.per_position)}, not to {accepted}")
    if any(later > earlier for earlier, later in pairwise(delta.per_position)):
        found.append(f"acceptance rises with the position: {', '.join(map(str, delta.per_position))}")
    return found


def _difference(before: float | None, after: float | None) -> int | None:
    return None if before is None or after is None else round(after - before)


def _key(sample: Sample) -> Labels:
    return tuple(sorted(sample.labels.items()))


def _broken(found: Mapping[str, list[Sample]], series: Mapping[str, frozenset[Labels]]) -> str:
    """Why the counters of a page contradict what counters are."""
    for name, samples in found.items():
        if len(series[name]) < len(samples):
            return f"the page has a series of {name} twice"
        for sample in samples:
            if not 0 <= sample.value < _LARGEST:
                return f"the page has {name} {sample.value}, which is no count"
    engines = {name: {dict(labels).get("engine", "") for labels in series[name]} for name in (*SPECULATION, GENERATED)}
    absent = [name for name in SPECULATION if not series[name]]
    if len(absent) < len(SPECULATION):
        if absent:
            return f"the page has counters of speculation, but no {' and no '.join(absent)}"
        if len({frozenset(values) for values in engines.values() if values}) > 1:
            return "the page has counters of some engines only"
    elif series[ACCEPTED_PER_POSITION]:
        return f"the page has counters of speculation, but no {' and no '.join(absent)}"
    return ""


def _unread(before: Metrics, after: Metrics) -> str:
    """A line that cannot be read may be the one that counts, also as an absence."""
    lines = before.page.unread + after.page.unread
    return f"lines of the page that cannot be read: {lines}" if lines else ""


def _incomplete(after: Metrics, old: Totals, new: Totals) -> SpeculationDelta | None:
    """Why two pages that are sound by themselves do not prove a difference, or the absence of speculation."""
    # OpenMetrics declares a counter without its suffix.
    names = {spelled for name in SPECULATION for spelled in (name, name.removesuffix("_total"))}
    if not new.speculates and names & after.page.declared:
        return SpeculationDelta("unknown", "the page declares counters of speculation and has none")
    for name in COUNTERS:
        # A reason to finish shows up with the first request that finishes so.
        if name != FINISHED and new.series[name] - old.series[name]:
            return SpeculationDelta("unknown", f"a series of {name} was not on the page before")
    return None


def _reset(before: Metrics, after: Metrics, old: Totals, new: Totals) -> str | None:
    if old.engines != new.engines:
        return f"the engines changed from {', '.join(old.engines)} to {', '.join(new.engines)}"
    if old.started and new.started and old.started != new.started:
        return "the process is another one: the engine restarted, or another replica answered"
    if old.speculates != new.speculates:
        return "the counters of speculation came or went: the engine restarted, or another replica answered"
    # Series by series: in a sum over engines the growth of one hides the restart of another.
    for name in (*COUNTERS, ACCEPTED_PER_POSITION):
        later = {_key(sample): sample.value for sample in after.page.named(name, model_name=old.model)}
        for sample in before.page.named(name, model_name=old.model):
            now = later.get(_key(sample))
            if now is None or now < sample.value:
                shown = "nothing" if now is None else f"{now:.0f}"
                change = f"{name} went from {sample.value:.0f} to {shown}"
                return f"{change}: the engine restarted, or another replica answered"
    return None
