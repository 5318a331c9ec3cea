"""What an engine says of itself around a block: counters, version, and whether one engine answers or several."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.http1 import HttpError
from bench.target import Target, page
from engine import decode
from engine.exposition import parse_exposition
from engine.findings import Problems
from engine.metrics import (
    ACCEPTED_PER_POSITION,
    COUNTERS,
    GENERATED,
    PROCESS_START,
    Metrics,
    SpeculationDelta,
    parse_metrics,
    speculation_delta,
)

CACHE_INFO = "vllm:cache_config_info"
# Only these series are kept: a whole page has 50 kB, twice for each block.
_KEPT = (*COUNTERS, ACCEPTED_PER_POSITION, GENERATED.replace("_total", "_created"), PROCESS_START, CACHE_INFO)
# A balancer shows its second engine within a few fresh connections.
_LOOKS = 4
# The engine counts a request's last tokens a moment after it has sent them.
_SETTLE_S = 3.0
_SETTLE_STEP_S = 0.1


@dataclass(frozen=True)
class Scrape:
    """One look at an engine. page: the kept series as text; why: why there are none; version: "" when not told.

    engines: how many different processes answered at the address in a few looks; None when they do not say.
    """

    page: str = ""
    why: str = ""
    version: str = ""
    engines: int | None = None

    def to_json(self) -> dict[str, object]:
        """As `metrics_before` and `metrics_after` of a block hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object], path: str) -> Scrape:
        """Read it back; {} is a look that was not taken."""
        return decode.build(cls, dict(value), path) if value else cls(why="not taken")

    @property
    def metrics(self) -> Metrics | None:
        """The series, None when there are none."""
        return parse_metrics(self.page) if self.page else None

    @property
    def prefix_caching(self) -> bool | None:
        """Whether the engine caches prefixes, None when it does not say."""
        found = {sample.labels.get("enable_prefix_caching") for sample in parse_exposition(self.page).named(CACHE_INFO)}
        return {"True": True, "False": False}.get(str(found.pop())) if len(found) == 1 else None

    def speculates(self, model: str) -> bool | None:
        """Whether the counters of speculation are there, None when the page does not say."""
        metrics = self.metrics
        totals = metrics.totals(label(metrics, model)) if metrics else None
        return totals.speculates if totals else None


def label(metrics: Metrics, model: str) -> str:
    """The page's name of the model: a page of one model has one, whatever name clients use for it."""
    return metrics.models[0] if len(metrics.models) == 1 else model


def difference(before: Scrape, after: Scrape, model: str) -> SpeculationDelta:
    """What was counted between two looks."""
    if before.metrics is None or after.metrics is None:
        return SpeculationDelta("unknown", before.why or after.why)
    return speculation_delta(before.metrics, after.metrics, label(after.metrics, model))


def prefix_hits(before: Scrape, after: Scrape, model: str) -> int | None:
    """Prompt tokens that were found in the prefix cache between two looks; None when the pages do not say."""
    values = []
    for scrape in (before, after):
        metrics = scrape.metrics
        totals = metrics.totals(label(metrics, model)) if metrics else None
        if totals is None or totals.prefix_hits is None:
            return None
        values.append(totals.prefix_hits)
    return round(values[1] - values[0])


async def look(target: Target) -> Scrape:
    """Look at the engine behind an address; a failure is kept as a reason."""
    pages = [await _metrics(target) for _ in range(_LOOKS)]
    why = next((why for _, why in pages if why), "")
    text = pages[-1][0]
    processes = {_process(text) for text, _ in pages}
    engines = None if None in processes else len(processes)
    return Scrape("" if why else text, why, await _version(target), engines)


async def settled(target: Target, before: Scrape, model: str, tokens: int) -> Scrape:
    """Look again until the counters hold at least so many generated tokens, or for a moment only."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        text, why = await _metrics(target)
        delta = difference(before, Scrape(text, why), model)
        counted = delta.generated is not None and delta.generated >= tokens
        if counted or delta.state in {"reset", "unknown"} or time.monotonic() >= deadline:
            return await look(target)
        await asyncio.sleep(_SETTLE_STEP_S)


async def _metrics(target: Target) -> tuple[str, str]:
    """The kept series, or why there are none."""
    try:
        status, body = await page(target, "/metrics")
    except HttpError as problem:
        return "", str(problem)
    if status != 200:
        return "", f"/metrics answers {status}"
    lines = body.decode("utf-8", "replace").split("\n")
    kept = [line for line in lines if line.startswith(_KEPT)]
    return ("\n".join(kept) + "\n", "") if kept else ("", "/metrics has no counters of vLLM")


def _process(text: str) -> tuple[float, ...] | None:
    """Start times, which tell one process from another."""
    names = (PROCESS_START, GENERATED.replace("_total", "_created"))
    times = [sample.value for sample in parse_exposition(text).samples if sample.name in names]
    return tuple(sorted(times)) or None


async def _version(target: Target) -> str:
    try:
        status, body = await page(target, "/version")
        told = decode.load_object(body, "version").get("version") if status == 200 else None
    except (HttpError, Problems):
        return ""
    return told if isinstance(told, str) else json.dumps(told) if told else ""
