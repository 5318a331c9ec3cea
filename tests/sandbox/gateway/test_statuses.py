"""Statuses as the controllers write them, held against what Modelplane was seen to meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.gateway.snapshot import Snapshot
from sandbox.gateway.statuses import wanted
from tests.sandbox.gateway import manifests as m

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "modelplane" / "golden" / "v0.3.1"


def test_each_gateway_has_class_gateway_and_routes_of_its_own_only() -> None:
    route = m.route("r", m.rule("/a", m.to_service("s")))
    snapshot = m.snapshot(m.TRAEFIK, route, m.service("s"))
    snapshot.put("GatewayClass", m.gateway_class(m.ENVOY))
    assert [(kind, item["metadata"]["name"]) for kind, item, _ in wanted(snapshot, m.TRAEFIK)] == [
        ("GatewayClass", "traefik"),
        ("Gateway", "modelplane"),
        ("HTTPRoute", "r"),
    ]


def test_a_status_that_is_right_is_not_written_again() -> None:
    snapshot = m.snapshot(m.ENVOY, m.route("r", m.rule("/a", m.to_pool("p")), dialect=m.ENVOY), m.pool("p"))
    for kind, item, status in list(wanted(snapshot, m.ENVOY)):
        snapshot.put(kind, {**item, "status": status})
    assert list(wanted(snapshot, m.ENVOY)) == []


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    made = m.route("r", m.rule("/a", m.to_service("s")))
    made["status"] = {"parents": [_parent(made, "True", "False")]}
    ((_, _, status),) = [
        found for found in wanted(m.snapshot(m.TRAEFIK, made, m.service("s")), m.TRAEFIK) if found[0] == "HTTPRoute"
    ]
    accepted, resolved = status["parents"][0]["conditions"]
    assert accepted["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert (resolved["status"], resolved["lastTransitionTime"] != "2026-01-01T00:00:00Z") == ("True", True)


def test_another_controllers_entries_stay() -> None:
    made = m.route("r", m.rule("/a", m.to_service("s")))
    foreign = {"controllerName": "example.com/other", "parentRef": {"name": "other"}, "conditions": []}
    made["status"] = {"parents": [foreign]}
    found = {kind: status for kind, _, status in wanted(m.snapshot(m.TRAEFIK, made, m.service("s")), m.TRAEFIK)}
    names = [parent["controllerName"] for parent in found["HTTPRoute"]["parents"]]
    assert names == ["example.com/other", "traefik.io/gateway-controller"]


@pytest.mark.parametrize(
    ("rule", "accepted", "resolved"),
    [
        (m.rule("/a", m.to_service("s")), ("True", "Accepted", ""), ("True", "ResolvedRefs", "")),
        (
            m.rule("/a", m.to_service("absent")),
            ("True", "Accepted", ""),
            ("False", "BackendNotFound", "Service ml-team/absent not found"),
        ),
        (
            m.rule("/a", m.to_service("s", port=81)),
            ("True", "Accepted", ""),
            ("False", "BackendNotFound", "Service ml-team/s not found"),
        ),
        (
            m.rule("/a", m.to_pool("p")),  # Traefik knows no InferencePool
            ("True", "Accepted", ""),
            ("False", "BackendNotFound", "InferencePool ml-team/p not found"),
        ),
        (
            {**m.rule("/a"), "retry": {}},
            ("False", "UnsupportedValue", "retry is not supported"),
            ("True", "ResolvedRefs", ""),
        ),
    ],
)
def test_a_routes_conditions_say_what_is_wrong(
    rule: dict[str, Any], accepted: tuple[str, str, str], resolved: tuple[str, str, str]
) -> None:
    snapshot = m.snapshot(m.TRAEFIK, m.route("r", rule), m.service("s"))
    status = next(status for kind, _, status in wanted(snapshot, m.TRAEFIK) if kind == "HTTPRoute")
    found = [(item["status"], item["reason"], item["message"]) for item in status["parents"][0]["conditions"]]
    assert found == [accepted, resolved]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden objects are not beside this checkout")
def test_statuses_equal_the_golden_ones_but_for_the_address() -> None:
    def read(name: str) -> list[dict[str, Any]]:
        return [item for item in yaml.safe_load_all((GOLDEN / f"control-plane.{name}.yaml").read_text()) if item]

    snapshot = Snapshot()
    golden: dict[tuple[str, str], dict[str, Any]] = {}
    for name in ("gatewayclasses", "gateways", "httproutes", "services", "endpointslices"):
        for item in read(name):
            golden[item["kind"], item["metadata"]["name"]] = item.get("status", {})
            snapshot.put(item["kind"], {key: value for key, value in item.items() if key != "status"})
    found = {(kind, item["metadata"]["name"]): status for kind, item, status in wanted(snapshot, m.TRAEFIK)}
    assert found["Gateway", "modelplane"].pop("addresses") == [{"type": "IPAddress", "value": "127.0.0.1"}]
    assert golden["Gateway", "modelplane"].pop("addresses") == [{"type": "IPAddress", "value": "203.0.113.20"}]
    assert found.keys() == {key for key in golden if key[0] in ("GatewayClass", "Gateway", "HTTPRoute")}
    for key, status in found.items():
        assert _timeless(status) == _timeless(golden[key])


def _parent(route: dict[str, Any], accepted: str, resolved: str) -> dict[str, Any]:
    time = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": time}
        for kind, status in (("Accepted", accepted), ("ResolvedRefs", resolved))
    ]
    return {
        "controllerName": m.TRAEFIK.controller,
        "parentRef": route["spec"]["parentRefs"][0],
        "conditions": conditions,
    }


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key != "lastTransitionTime"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
