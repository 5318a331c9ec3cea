"""Readiness looks at what was promised; the misleading Ready conditions of the golden objects are not believed."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane import readiness
from tests.modelplane.shared import golden, needs_upstream

READY = {"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 2}
SYNCED = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "observedGeneration": 2}


def true(name: str) -> dict[str, str]:
    return {"type": name, "status": "True"}


def false(name: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": name, "status": "False", "reason": reason} | ({"message": message} if message else {})


def observed(spec: dict[str, Any], *conditions: object, **status: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 2}, "spec": spec, "status": {"conditions": [*conditions], **status}}


@needs_upstream
def test_everything_modelplane_finished_is_ready() -> None:
    rules = {
        "inferencegateways": readiness.gateway_missing,
        "inferenceclusters": readiness.cluster_missing,
        "modeldeployments": readiness.deployment_missing,
        "modelendpoints": readiness.endpoint_missing,
        "modelservices": readiness.service_missing,
    }
    for kind, missing in rules.items():
        (finished,) = golden(f"control-plane.{kind}")
        assert missing(finished) == [], kind
        assert missing({**finished, "status": {}}) != [], kind


def test_a_service_without_endpoints_is_not_ready_although_it_says_so() -> None:
    service = observed({}, READY, SYNCED, false("EndpointsResolved", "NoEndpoints", "Matched 0 endpoint(s)"))
    assert readiness.service_missing(service) == [
        "EndpointsResolved is False (NoEndpoints, Matched 0 endpoint(s))",
        "RoutingReady is not reported",
        "no status.address: the control plane's gateway has none yet",
    ]


def test_a_service_with_an_address_but_no_route_is_not_ready() -> None:
    service = observed({}, true("EndpointsResolved"), false("RoutingReady", "Configuring"), address="http://x/a/b")
    assert readiness.service_missing(service) == ["RoutingReady is False (Configuring)"]


@pytest.mark.parametrize(
    ("replicas", "conditions", "counts", "missing"),
    [
        (1, [READY, SYNCED, true("ReplicasScheduled"), true("ReplicasReady")], {"total": 1, "ready": 1}, []),
        (
            1,
            [READY, SYNCED, false("ReplicasScheduled", "NoClusters")],
            {},
            [
                "0 of 1 replicas ready, 0 scheduled",
                "ReplicasScheduled is False (NoClusters)",
                "ReplicasReady is not reported",
            ],
        ),
        (  # lowered from two
            1,
            [READY, SYNCED, true("ReplicasScheduled"), true("ReplicasReady")],
            {"total": 2, "ready": 2},
            ["2 of 1 replicas ready, 2 scheduled"],
        ),
        (  # Modelplane issue 437: ReplicasScheduled is True although one does not fit
            2,
            [SYNCED, true("ReplicasScheduled"), false("ReplicasReady", "ModelStarting", "1 of 1 ready")],
            {"total": 1, "ready": 1},
            ["1 of 2 replicas ready, 1 scheduled", "ReplicasReady is False (ModelStarting, 1 of 1 ready)"],
        ),
        (
            1,
            [SYNCED, false("ModelCacheResolved", "ModelCacheNotFound"), true("ReplicasScheduled")],
            {},
            [
                "0 of 1 replicas ready, 0 scheduled",
                "ModelCacheResolved is False (ModelCacheNotFound)",
                "ReplicasReady is not reported",
            ],
        ),
        (
            1,
            [{**SYNCED, "observedGeneration": 1}, true("ReplicasReady")],
            {"total": 1, "ready": 1},
            ["the status is of generation 1, the spec of generation 2"],
        ),
        (1, [], {}, ["0 of 1 replicas ready, 0 scheduled"] + [
            f"{name} is not reported" for name in ("ReplicasScheduled", "ReplicasReady", "Synced")
        ]),
    ],
)  # fmt: skip
def test_a_deployment_is_judged_by_its_counts(
    replicas: int, conditions: list[dict[str, Any]], counts: dict[str, int], missing: list[str]
) -> None:
    deployment = observed({"replicas": replicas}, *conditions, replicas=counts)
    assert readiness.deployment_missing(deployment) == missing


def test_a_cluster_needs_an_address_and_its_pools() -> None:
    spec = {"nodePools": [{"name": "gpu"}, {"name": "gpu-2"}]}
    conditions = [true("ClusterReady"), true("BackendReady"), READY, SYNCED]
    assert readiness.cluster_missing(observed(spec, *conditions, gpuPools=[{"name": "gpu"}])) == [
        "no status.gateway.address: the load balancer of the workload cluster's gateway has none yet",
        "node pool gpu-2 is not in status.gpuPools",
    ]


def test_a_gateway_that_is_ready_without_an_address_is_not() -> None:
    gateway = observed({}, true("ControllerReady"), READY, SYNCED)
    (missing,) = readiness.gateway_missing(gateway)
    assert missing.startswith("no status.address")


def test_an_endpoint_with_a_refused_endpoint_slice_is_not_ready() -> None:
    endpoint = observed(
        {}, false("Synced", "ReconcileError", "Unsynced resources: endpointslice"), true("RoutingReady"),
        routing={"backendName": "x"},
    )  # fmt: skip
    assert readiness.endpoint_missing(endpoint) == [
        "Synced is False (ReconcileError, Unsynced resources: endpointslice)"
    ]


def test_a_definition_must_be_established_in_its_current_generation() -> None:
    """v0.3.0 on top of an established v0.3.1 leaves Established=True with an older generation."""
    established = {"type": "Established", "status": "True", "observedGeneration": 2}
    assert readiness.xrd_missing(observed({}, established)) == []
    (stale,) = readiness.xrd_missing(observed({}, {**established, "observedGeneration": 1}))
    assert "generation 2 is not served" in stale
    assert readiness.xrd_missing(observed({})) == ["Established is not reported"]
