"""The dashboard names only what engines of every version expose, and its queries compute what the parsers compute."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.metrics import Metrics, parse_metrics, speculation_delta
from engine.names import METRICS, Presence, presence
from engine.versions import TABLE, EngineFeatures
from tests.validation.engines import engine, page
from tests.validation.shared import SHARED, needs_shared
from validation.answer import COPY, EDIT
from validation.commands.dashboard import PANELS, dashboard, dashboard_json
from validation.http import post_completion

QUERIES = [(panel.title, expr) for panel in PANELS for expr, _ in panel.queries]
# How PromQL exposes a histogram.
SUFFIXES = ("_bucket", "_count", "_sum")
SPECULATION = "vllm:spec_decode_"


def series(expr: str) -> set[str]:
    """The exposed names in a query."""
    return set(re.findall(r"vllm:\w+", expr))


def family(name: str) -> str:
    """The name in the version table: a histogram's without its suffix."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def samples(text: str) -> set[str]:
    return {sample.name for sample in parse_metrics(text).page.samples}


NAMED = {name for _, expr in QUERIES for name in series(expr)}


@pytest.mark.parametrize("features", TABLE, ids=lambda features: str(features.since))
def test_every_version_exposes_all_that_is_asked_for(features: EngineFeatures) -> None:
    absent = {name for name in NAMED if presence(METRICS, family(name), features.since) is not Presence.PRESENT}
    assert absent == set()


@needs_shared
def test_a_real_engine_exposes_all_that_is_asked_for() -> None:
    folder = SHARED / "vllm-samples"
    speculating = samples((folder / "0.32.0-ngram.metrics.txt").read_text())
    baseline = samples((folder / "0.32.0-baseline.metrics.txt").read_text())
    assert speculating >= NAMED
    # Without speculation the other panels still have data.
    assert {name for name in NAMED if name not in baseline} == {n for n in NAMED if n.startswith(SPECULATION)}


@pytest.mark.parametrize("version", ["0.11.2", "0.23.0", "0.33.0"])
def test_the_fake_engine_of_a_version_exposes_all_that_is_asked_for(version: str, tmp_path: Path) -> None:
    with engine(tmp_path, version=version) as served:
        assert samples(page(served.url)) >= NAMED


RATE = re.compile(r"sum by \((?P<by>[^)]*)\) \(rate\((?P<name>[\w:]+)\{[^}]*\}\[\$__rate_interval\]\)\)")


def evaluated(expr: str, before: Metrics, after: Metrics, **labels: str) -> float:
    """A query of rates, sums and quotients over two scrapes of one model; labels: of the series to look at."""

    def increase(match: re.Match[str]) -> str:
        by = match["by"].split(", ")
        chosen = {key: value for key, value in labels.items() if key in by}
        sums = [sum(s.value for s in page.page.named(match["name"], **chosen)) for page in (before, after)]
        return str(sums[1] - sums[0])

    text = RATE.sub(increase, expr).replace("on (model_name) group_left ()", "")
    assert re.fullmatch(r"[\d.e+\-*/ ]+", text), text
    return float(eval(text))


def rates(before: Metrics, after: Metrics) -> dict[str, float]:
    """Title -> value of the first query of each panel that is made of rates alone."""
    found: dict[str, float] = {}
    for title, expr in QUERIES:
        if RATE.search(expr) and "histogram_quantile" not in expr:
            found.setdefault(title, evaluated(expr, before, after))
    return found


def query(title: str) -> str:
    return next(expr for name, expr in QUERIES if name == title)


def test_the_queries_compute_what_the_parsers_compute(tmp_path: Path) -> None:
    with engine(tmp_path) as served:
        before = parse_metrics(page(served.url))
        for task in (EDIT, COPY):
            body = {"model": "qwen", "messages": [{"role": "user", "content": task.prompt}], "max_tokens": 100}
            assert post_completion(f"{served.url}/v1/chat/completions", body).completion.text
        after = parse_metrics(page(served.url))
    delta = speculation_delta(before, after)
    assert delta.state == "measured" and delta.drafts and delta.position_rates
    found = rates(before, after)
    assert found["Acceptance length"] == pytest.approx(delta.mean_acceptance_length)
    assert found["Acceptance rate"] == pytest.approx(delta.acceptance_rate)
    assert found["Generated tokens"] == delta.generated
    assert 0 < found["Coverage"] <= 1
    by_position = query("Acceptance by draft position")
    shares = [evaluated(by_position, before, after, position=str(place)) for place in range(len(delta.position_rates))]
    assert shares == pytest.approx(delta.position_rates)


@needs_shared
def test_the_queries_of_a_real_engine() -> None:
    after = parse_metrics((SHARED / "vllm-samples" / "0.32.0-ngram.metrics.txt").read_text())
    # Three requests of 160 tokens: 120 steps after their first tokens, 108 of them with a draft.
    assert rates(parse_metrics(""), after) == {
        "Acceptance length": pytest.approx(1 + 363 / 108),
        "Acceptance rate": pytest.approx(363 / 540),
        "Coverage": pytest.approx(108 / 120),
        "Acceptance by draft position": pytest.approx(363 / 108),
        "TPOT": pytest.approx(0.071058761276732 / 3),
        "Generated tokens": 480,
    }


def test_grafana_gets_one_panel_for_each_question() -> None:
    document = json.loads(dashboard_json())
    assert document == dashboard()
    assert [panel["title"] for panel in document["panels"]] == [
        "Acceptance length",
        "Acceptance rate",
        "Coverage",
        "Acceptance by draft position",
        "TPOT",
        "TTFT",
        "KV cache use",
        "Generated tokens",
    ]
    assert {variable["name"]: variable["type"] for variable in document["templating"]["list"]} == {
        "datasource": "datasource",
        "model": "query",
    }
    places = [tuple(panel["gridPos"].values()) for panel in document["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + width <= 24 for x, _, width, _ in places)
    # Whatever Prometheus and model are chosen, each query follows.
    for panel in document["panels"]:
        assert panel["description"]
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert target["expr"].count('{model_name=~"$model"}') == len(re.findall(r"vllm:\w+", target["expr"]))
