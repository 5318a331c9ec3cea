"""Which rule a path meets, and what it becomes: the Gateway API's rules on paths."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.gateway.routes import Rewrite, Rule, Table, Unsupported, duration, rules_of, table
from tests.sandbox.gateway import manifests as m

RULES = [
    ("short", "/ml-team", False),
    ("service", "/ml-team/qwen3", False),
    ("spec", "/ml-team/qwen3/v1", False),
    ("exact", "/ml-team/qwen3/v1/models", True),
]


@pytest.mark.parametrize(
    ("path", "met"),
    [
        ("/ml-team/qwen3", "service"),
        ("/ml-team/qwen3/", "service"),
        ("/ml-team/qwen3/metrics", "service"),
        ("/ml-team/qwen3-spec/metrics", "short"),  # a prefix ends at a segment
        ("/ml-team/qwen3/v1/chat/completions", "spec"),
        ("/ml-team/qwen3/v1/models", "exact"),
        ("/ml-team/qwen3/v1/models/", "spec"),
        ("/ml-team", "short"),
        ("/ml-teams/qwen3", None),
        ("/", None),
        ("/ML-team/qwen3", None),
    ],
)
def test_the_longest_prefix_of_whole_segments_wins(path: str, met: str | None) -> None:
    rules = Table([Rule(("ns", name), prefix, exact, ()) for name, prefix, exact in RULES])
    found = rules.find(path)
    assert (found.route[1] if found else None) == met


@pytest.mark.parametrize(
    ("prefix", "to", "path", "becomes"),
    [
        ("/ml-team/svc", Rewrite("/ml-team/svc-29b20/"), "/ml-team/svc/v1/models", "/ml-team/svc-29b20/v1/models"),
        ("/ml-team/svc", Rewrite("/"), "/ml-team/svc/v1/models", "/v1/models"),
        ("/ml-team/svc", Rewrite("/"), "/ml-team/svc", "/"),
        ("/ml-team/svc", Rewrite("/"), "/ml-team/svc/", "/"),
        ("/ml-team/svc", Rewrite(""), "/ml-team/svc", "/"),
        ("/ml-team/svc", Rewrite("/x"), "/ml-team/svc/a%2Fb//c", "/x/a%2Fb//c"),
        ("/ml-team/svc", Rewrite("/all", whole=True), "/ml-team/svc/v1", "/all"),
        ("/ml-team/svc", None, "/ml-team/svc/v1", "/ml-team/svc/v1"),
        ("", Rewrite("/x"), "/v1", "/x/v1"),
    ],
)
def test_the_prefix_is_replaced_and_the_rest_kept(prefix: str, to: Rewrite | None, path: str, becomes: str) -> None:
    assert Rule(("ns", "r"), prefix, exact=False, backends=()).rewritten(path, to) == becomes


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("10s", 10), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("1h1m1s1ms", 3661.001)]
)
def test_durations_are_those_of_the_gateway_api(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "1.5s", "-1s", "1 s"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("timeouts", "seconds"),
    [
        ({}, None),
        ({"request": "0s"}, 0.0),
        ({"request": "10s"}, 10.0),
        ({"request": "10s", "backendRequest": "2s"}, 2.0),
        ({"request": "0s", "backendRequest": "2s"}, 2.0),
    ],
)
def test_a_timeout_of_zero_is_no_limit_and_none_is_the_gateways_own(timeouts: dict[str, str], seconds: float) -> None:
    made = m.route("r", m.rule("/a", timeouts=timeouts) if timeouts else m.rule("/a"))
    assert [rule.seconds for rule in rules_of(made)] == [seconds]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"matches": [{"path": {"type": "RegularExpression", "value": "/.*"}}]}, "path match RegularExpression"),
        ({"matches": [{"headers": [{"name": "x", "value": "y"}]}]}, "headers"),
        ({"filters": [{"type": "RequestRedirect", "requestRedirect": {}}]}, "filter RequestRedirect"),
        ({"backendRefs": [{"name": "x", "namespace": "other", "port": 80}]}, "backendRef to another namespace"),
        ({"retry": {"attempts": 2}}, "retry"),
    ],
)
def test_what_is_not_played_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        list(rules_of(m.route("r", {**m.rule("/a"), **change})))


def test_only_routes_of_our_own_gateways_are_in_the_table() -> None:
    ours = m.route("ours", m.rule("/ours"))
    foreign = m.route("foreign", m.rule("/foreign"))
    foreign["spec"]["parentRefs"][0]["name"] = "another"
    wrong = m.route("wrong", {**m.rule("/wrong"), "retry": {}})
    found = table(m.snapshot(m.TRAEFIK, ours, foreign, wrong), m.TRAEFIK.controller)
    assert [bool(found.find(path)) for path in ("/ours", "/foreign", "/wrong")] == [True, False, False]
