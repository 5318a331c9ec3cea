"""The fake engine's /metrics: its counters as the text of its version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from engine.names import METRICS, Presence, presence
from sandbox.engines.fake.counters import Counters, Histogram
from sandbox.engines.fake.plan import Plan

# Labels and value of each sample of a family.
Rows = Sequence[tuple[Mapping[str, str], float]]
CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


def page(plan: Plan, counters: Counters) -> str:
    """All families that this version has, in the order of vLLM's page."""
    return "\n".join([*_process(counters), *_engine(plan, counters), *_http(counters)]) + "\n"


def _engine(plan: Plan, counters: Counters) -> Iterator[str]:
    own = {"engine": "0", "model_name": plan.names[0]}
    speculates = (plan.config is not None) != (plan.settings.lie == "metrics")
    if speculates:
        yield from _speculation(counters, own)
    usage = counters.held_tokens / plan.kv_tokens
    gauges = {
        "vllm:num_requests_running": counters.running,
        "vllm:num_requests_waiting": counters.waiting,
        "vllm:kv_cache_usage_perc": usage,
        "vllm:gpu_cache_usage_perc": usage,
    }
    totals = {
        "vllm:prefix_cache_queries_total": 0,
        "vllm:prefix_cache_hits_total": 0,
        "vllm:prompt_tokens_total": counters.prompt,
        "vllm:prompt_tokens_cached_total": 0,
        "vllm:generation_tokens_total": counters.generated,
        "vllm:num_preemptions_total": 0,
    }
    histograms = {
        "vllm:time_to_first_token_seconds": counters.ttft,
        "vllm:inter_token_latency_seconds": counters.inter_token,
        "vllm:time_per_output_token_seconds": counters.inter_token,
        "vllm:request_time_per_output_token_seconds": counters.per_token,
        "vllm:e2e_request_latency_seconds": counters.whole,
        "vllm:request_queue_time_seconds": counters.queued,
        "vllm:request_inference_time_seconds": counters.inference,
        "vllm:request_prefill_time_seconds": counters.prefill,
        "vllm:request_decode_time_seconds": counters.decode,
        "vllm:iteration_tokens_total": counters.iteration,
        "vllm:request_prompt_tokens": counters.prompt_sizes,
        "vllm:request_generation_tokens": counters.answer_sizes,
    }
    for name, value in gauges.items():
        if _has(plan, name):
            yield from _family(name, "gauge", [(own, value)])
    if _has(plan, "vllm:num_requests_waiting_by_reason"):
        rows = [({**own, "reason": "capacity"}, counters.waiting), ({**own, "reason": "deferred"}, 0)]
        yield from _family("vllm:num_requests_waiting_by_reason", "gauge", rows)
    for name, value in totals.items():
        if _has(plan, name):
            yield from _counter(name, [(own, value)], counters.created)
    reasons = [
        ({**own, "finished_reason": reason}, counters.finished[reason])
        for reason in ("stop", "length", "abort", "error")
    ]
    yield from _counter("vllm:request_success_total", reasons, counters.created)
    for name, histogram in histograms.items():
        if _has(plan, name):
            yield from _histogram(name, histogram, own, counters.created)
    info = {
        "engine": "0",
        "block_size": "16",
        "enable_prefix_caching": "False",
        "num_gpu_blocks": str(plan.kv_tokens // 16),
    }
    yield from _family("vllm:cache_config_info", "gauge", [(info, 1)])


def _speculation(counters: Counters, own: Mapping[str, str]) -> Iterator[str]:
    base = "vllm:spec_decode_num"
    positions = range(counters.k or 5)
    accepted = [counters.per_position[at] if at < counters.k else 0 for at in positions]
    yield from _counter(f"{base}_drafts_total", [(own, counters.drafts)], counters.created)
    yield from _counter(f"{base}_draft_tokens_total", [(own, counters.drafted)], counters.created)
    yield from _counter(f"{base}_accepted_tokens_total", [(own, sum(accepted))], counters.created)
    rows = [({**own, "position": str(at)}, accepted[at]) for at in positions]
    yield from _counter(f"{base}_accepted_tokens_per_pos_total", rows, counters.created)


def _has(plan: Plan, name: str) -> bool:
    return presence(METRICS, name, plan.version.effective) is not Presence.ABSENT


def _process(counters: Counters) -> Iterator[str]:
    yield from _family("process_start_time_seconds", "gauge", [({}, counters.created)])
    times = os.times()
    yield from _counter("process_cpu_seconds_total", [({}, times.user + times.system)], None)


def _http(counters: Counters) -> Iterator[str]:
    rows = [
        ({"handler": handler, "method": method, "status": status}, count)
        for (handler, method, status), count in sorted(counters.http.items())
    ]
    if rows:
        yield from _counter("http_requests_total", rows, counters.created)


def _family(name: str, kind: str, rows: Rows) -> Iterator[str]:
    yield f"# HELP {name} {name.removeprefix('vllm:').replace('_', ' ')}."
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        yield f"{name}{_labels(labels)} {float(value)!r}"


def _counter(name: str, rows: Rows, created: float | None) -> Iterator[str]:
    yield from _family(name, "counter", rows)
    if created is not None:
        yield from _family(f"{name.removesuffix('_total')}_created", "gauge", [(labels, created) for labels, _ in rows])


def _histogram(name: str, histogram: Histogram, own: Mapping[str, str], created: float) -> Iterator[str]:
    yield f"# HELP {name} {name.removeprefix('vllm:').replace('_', ' ')}."
    yield f"# TYPE {name} histogram"
    reached = 0
    for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
        reached += count
        edge = "+Inf" if bound is None else repr(bound)
        yield f"{name}_bucket{_labels({'engine': '0', 'le': edge, 'model_name': own['model_name']})} {float(reached)!r}"
    yield f"{name}_count{_labels(own)} {float(reached)!r}"
    yield f"{name}_sum{_labels(own)} {histogram.total!r}"
    yield from _family(f"{name}_created", "gauge", [(own, created)])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (f'{key}="{_escape(value)}"' for key, value in sorted(labels.items()))
    return "{" + ",".join(escaped) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
