"""`summary.json`: one run in numbers, computed from its two other files; it compares nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean, median

from bench.records import SCHEMA, Request, RunFolder
from bench.scrape import Scrape, difference
from engine.findings import Finding

# What the numbers mean, since no two tools agree.
DEFINITIONS = {
    "ttft_s": "send to first text, thinking included; the connection is open before",
    "latency_s": "send to the last event with a choice",
    "tpot_s": "(latency - TTFT) / (completion tokens - 1), tokens from usage",
    "tokens_per_s": "completion tokens of a block over the time from its first send to its last end, all blocks",
    "load": "closed loop: latencies at a concurrency, not at a rate",
}


def summary(read: RunFolder, findings: Sequence[Finding]) -> dict[str, object]:
    """The document; times in seconds, null where nothing was measured."""
    measured = read.measured
    answered = [request for request in measured if request.error is None]
    families = sorted({request.family for request in measured})
    return {
        "schema": SCHEMA,
        "arm": read.run.arm.value,
        "concurrency": read.run.concurrency,
        "complete": _complete(read),
        "definitions": DEFINITIONS,
        "requests": {
            "measured": len(measured),
            "answered": len(answered),
            "failed": len(measured) - len(answered),
            "warmup": sum(request.warmup for request in read.requests),
            "excluded": len([r for r in read.requests if not r.warmup]) - len(measured),
            "errors": dict(Counter(request.error for request in measured if request.error)),
            "finish_reasons": dict(Counter(request.finish_reason or "none" for request in answered)),
        },
        "all": _times(answered),
        "families": {family: _times([r for r in answered if r.family == family]) for family in families},
        "tokens_per_s": _throughput(read, answered),
        "speculation": _speculation(read),
        "client": {
            "idle_s_median": _median([request.client_idle_s for request in measured]),
            "loop_lag_s_max": max((request.loop_lag_s for request in measured), default=None),
        },
        "findings": [finding.line() for finding in findings],
    }


def _complete(read: RunFolder) -> bool:
    """Whether each case was asked as often as planned."""
    asked = Counter(request.case for request in read.measured)
    return bool(asked) and all(count == read.run.repeats for count in asked.values())


def _times(requests: Sequence[Request]) -> dict[str, object]:
    tpots = [tpot for request in requests if (tpot := request.tpot_s) is not None]
    tokens = [request.usage.completion_tokens for request in requests if request.usage]
    chunks = sum(len(request.chunk_times_s) for request in requests)
    return {
        "answered": len(requests),
        "ttft_s": _median([request.ttft_s for request in requests if request.ttft_s is not None]),
        "latency_s": _median([request.end_s for request in requests if request.end_s is not None]),
        "tpot_s": _median(tpots),
        "completion_tokens": mean(tokens) if tokens else None,
        "tokens_per_chunk": sum(tokens) / chunks if chunks else None,
    }


def _throughput(read: RunFolder, answered: Sequence[Request]) -> float | None:
    tokens, seconds = 0, 0.0
    for block in read.run.blocks:
        mine = [request for request in answered if request.block == block.index]
        if mine:
            tokens += sum(request.usage.completion_tokens for request in mine if request.usage)
            seconds += max(r.sent + (r.end_s or 0.0) for r in mine) - min(r.sent for r in mine)
    return tokens / seconds if seconds else None


def _speculation(read: RunFolder) -> dict[str, object] | None:
    """Sums over the blocks whose counters could be read; rates are not comparable between engine versions."""
    deltas = []
    for block in read.run.blocks:
        if block.metrics_after and not block.problems:
            before, after = (Scrape.from_json(m, "metrics") for m in (block.metrics_before, block.metrics_after))
            delta = difference(before, after, read.run.service.model)
            deltas += [delta] if delta.state == "measured" else []
    if not deltas:
        return None
    drafts, tokens = sum(d.drafts or 0 for d in deltas), sum(d.draft_tokens or 0 for d in deltas)
    accepted = sum(d.accepted or 0 for d in deltas)
    return {
        "blocks": len(deltas),
        "drafts": drafts,
        "draft_tokens": tokens,
        "accepted_tokens": accepted,
        "generated_tokens": sum(d.generated or 0 for d in deltas),
        "acceptance_rate": accepted / tokens if tokens else None,
        "acceptance_length": 1 + accepted / drafts if drafts else None,
    }


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
