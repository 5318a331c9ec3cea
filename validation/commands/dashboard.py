"""A Grafana dashboard of speculation, made from the metric names that the parsers know (engine/metrics.py).

Import it in Grafana (Dashboards, New, Import): it asks for the Prometheus that scrapes the engines and for the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.metrics import (
    ACCEPTED,
    ACCEPTED_PER_POSITION,
    CACHE_USAGE,
    DRAFT_TOKENS,
    DRAFTS,
    GENERATED,
    STEP_LATENCY,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_TOKEN,
)

UID, TITLE = "speculation", "Speculative decoding"
# Grafana 10 and later read it; newer ones migrate it by themselves.
SCHEMA_VERSION = 39
_SELECTED = '{model_name=~"$model"}'
# Panels side by side on Grafana's grid of 24 columns, each with room for a legend below.
_COLUMNS, _WIDTH, _HEIGHT = 24, 8, 9


@dataclass(frozen=True)
class Panel:
    """One graph. unit: Grafana's name of it; queries: (PromQL, legend); most: where the axis ends."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    most: float | None = None


def _rate(name: str, *labels: str) -> str:
    """Increase a second, summed over the engines of a model. labels: kept beside the model's name."""
    by = ", ".join(("model_name", *labels))
    return f"sum by ({by}) (rate({name}{_SELECTED}[$__rate_interval]))"


def _quantile(share: float, name: str) -> str:
    return f"histogram_quantile({share}, {_rate(f'{name}_bucket', 'le')})"


_MODEL = "{{model_name}}"
PANELS = (
    Panel(
        "Acceptance length",
        "Tokens of a step with a draft, bonus token included; at most k+1. No data: nothing was drafted, or the engine "
        "runs without speculation.",
        "short",
        ((f"1 + {_rate(ACCEPTED)} / {_rate(DRAFTS)}", _MODEL),),
    ),
    Panel(
        "Acceptance rate",
        "Accepted draft tokens by draft tokens. Not comparable between engines that draft without a match (GPU, from "
        "0.32 on) and those that do not.",
        "percentunit",
        ((f"{_rate(ACCEPTED)} / {_rate(DRAFT_TOKENS)}", _MODEL),),
        1,
    ),
    Panel(
        "Coverage",
        "Share of the steps after a request's first token that had a draft. Near 1 on engines that draft without a "
        "match.",
        "percentunit",
        ((f"{_rate(DRAFTS)} / {_rate(f'{STEP_LATENCY}_count')}", _MODEL),),
        1,
    ),
    Panel(
        "Acceptance by draft position",
        "Share of the drafts accepted at least as far as each position, counted from 0.",
        "percentunit",
        (
            (
                f"{_rate(ACCEPTED_PER_POSITION, 'position')} / on (model_name) group_left () {_rate(DRAFTS)}",
                f"{_MODEL} position {{{{position}}}}",
            ),
        ),
        1,
    ),
    Panel(
        "TPOT",
        "Time per output token of finished requests. The engine's buckets are wide: the mean is exact, the 95th "
        "percentile is rough.",
        "s",
        (
            (f"{_rate(f'{TIME_PER_OUTPUT_TOKEN}_sum')} / {_rate(f'{TIME_PER_OUTPUT_TOKEN}_count')}", f"{_MODEL} mean"),
            (_quantile(0.95, TIME_PER_OUTPUT_TOKEN), f"{_MODEL} p95"),
        ),
    ),
    Panel(
        "TTFT",
        "Time to first token, from a request's arrival.",
        "s",
        (
            (_quantile(0.5, TIME_TO_FIRST_TOKEN), f"{_MODEL} median"),
            (_quantile(0.95, TIME_TO_FIRST_TOKEN), f"{_MODEL} p95"),
        ),
    ),
    Panel(
        "KV cache use",
        "Share of the KV cache's blocks in use, of each engine.",
        "percentunit",
        ((f"max by (model_name, pod) ({CACHE_USAGE}{_SELECTED})", f"{_MODEL} {{{{pod}}}}"),),
        1,
    ),
    Panel("Generated tokens", "Tokens a second of all requests together.", "short", ((_rate(GENERATED), _MODEL),)),
)


def dashboard_json() -> str:
    """The dashboard as Grafana imports it."""
    return json.dumps(dashboard(), indent=2)


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana's model has it."""
    return {
        "uid": UID,
        "title": TITLE,
        "tags": ["vllm", "speculative-decoding"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    query = f"label_values({GENERATED}, model_name)"
    yield {
        "name": "model",
        "label": "Model",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "model"},
        "definition": query,
        "refresh": 2,  # with the time range
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    place = number * _WIDTH
    limits = {"min": 0} if panel.most is None else {"min": 0, "max": panel.most}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"x": place % _COLUMNS, "y": place // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, **limits}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}, "legend": {"displayMode": "list"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
            for index, (expr, legend) in enumerate(panel.queries)
        ],
    }
