"""InferenceCluster and namespace gates: what counts, what is missing, what ends the wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.gates import inference_cluster
from components.gates.events import told
from components.gates.inference_cluster import InferenceClusterReady, judge_usages
from components.gates.namespace import OWNER_ANNOTATION, Namespace
from components.gates.waiting import Done, Failed, GateError, Outcome, Waiting
from tests.components.gates.api import Api, Clock, serve
from tests.components.gates.objects import Manifest, condition, event
from tests.modelplane.shared import golden, needs_upstream


def cluster(*conditions: Manifest, address: str = "") -> Manifest:
    status: dict[str, Any] = {"conditions": list(conditions), "gpuPools": [{"name": "gpu"}]}
    if address:
        status["gateway"] = {"address": address}
    spec = {"nodePools": [{"name": "gpu"}], "crossplane": {"resourceRefs": []}}
    return {"metadata": {"name": "workload", "generation": 1}, "spec": spec, "status": status}


UP = (condition("ClusterReady", "True"), condition("BackendReady", "True"), condition("Ready", "True"))
NO_ADDRESS = "no status.gateway.address: the load balancer of the workload cluster's gateway has none yet"
NO_BALANCER = (
    "the workload cluster gives the gateway's Service of type LoadBalancer no address",
    "`kubectl get services -A` there; outside a cloud it needs a load balancer such as MetalLB",
)
RELEASE = {"kind": "Release", "metadata": {"name": "workload-dra-driver"}}

CLUSTERS = [
    pytest.param(
        cluster(*UP, address="203.0.113.10"), [], Done({"gateway_address": "203.0.113.10"}), id="ready with an address"
    ),
    pytest.param(
        cluster(*UP),
        [],
        Waiting((NO_ADDRESS,), (), *NO_BALANCER),
        id="Ready=True without an address takes no replica",
    ),
    pytest.param(
        cluster(UP[0], condition("BackendReady", "False", "Installing"), condition("Ready", "False", "Creating")),
        [
            {
                "kind": "Object",
                "metadata": {
                    "name": "workload-gateway",
                    "annotations": {"crossplane.io/composition-resource-name": "gateway"},
                },
                "status": {"conditions": [condition("Ready", "False", "Unavailable")]},
            }
        ],
        Waiting(
            (
                "BackendReady is False (Installing)",
                "Ready is False (Creating)",
                NO_ADDRESS,
                "not ready: Object workload-gateway",
            ),
            (),
            *NO_BALANCER,
        ),
        id="when only the gateway is left, its load balancer is",
    ),
    pytest.param(
        cluster(UP[0], condition("BackendReady", "False", "Installing"), condition("Ready", "False", "Creating")),
        [
            {
                **RELEASE,
                "status": {
                    "conditions": [condition("Synced", "False", "", "chart not found"), condition("Ready", "False")]
                },
            }
        ],
        Waiting(
            (
                "BackendReady is False (Installing)",
                "Ready is False (Creating)",
                NO_ADDRESS,
                "not ready: Release workload-dra-driver (chart not found)",
            )
        ),
        id="what the serving stack still waits for is named",
    ),
    pytest.param(
        cluster(condition("ClusterReady", "False", "InvalidNodePool", "class nvidia-l4 has no provisioning")),
        [],
        Failed(
            "InvalidNodePool: class nvidia-l4 has no provisioning (a node pool of the InferenceCluster contradicts its "
            "InferenceClass)",
            "correct the pool: the condition's message says what",
        ),
        id="a pool that contradicts its class ends the wait",
    ),
]


@pytest.mark.parametrize(("manifest", "parts", "expected"), CLUSTERS)
def test_when_the_inference_cluster_is_ready(manifest: Manifest, parts: list[Manifest], expected: Outcome) -> None:
    assert inference_cluster.judge(manifest, parts) == expected


@needs_upstream
def test_modelplanes_own_ready_cluster_is_done_and_protected_while_a_replica_runs() -> None:
    (ready,) = golden("control-plane.inferenceclusters")
    assert inference_cluster.judge(ready) == Done({"gateway_address": "203.0.113.10"})
    usages = golden("control-plane.clusterusages")
    assert judge_usages(usages, "wl") == Waiting(
        ("ClusterUsage wl-d6f420700e93: ModelReplicas are scheduled to this InferenceCluster",),
        remedy="`kubectl get modelreplicas -A` on the control plane shows what still runs there",
    )
    assert judge_usages(usages, "another") == Done()


def test_the_name_of_a_running_cluster_cannot_change() -> None:
    gate, new = InferenceClusterReady(), {"name": "new"}
    assert gate.problems(new, {}, {}) == []
    assert gate.problems(new, {"name": "new"}, {}) == []
    assert gate.problems(new, {"name": "old"}, {}) == [
        "platform.clusterName: new: the stack runs on InferenceCluster old; Modelplane moves no replica to another; "
        "set it back, or destroy the stack first"
    ]


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as running:
        yield running


def test_events_are_told_once_oldest_first_with_their_count() -> None:
    events = [
        event("p", "B", "later", "2026-11-30T00:02:00Z", 3),
        event("p", "A", "first\n  line", "2026-11-30T00:01:00Z"),
        event("other", "C", "not mine"),
    ]
    assert told(events, ["p"]) == ["A: first line", "B: later (3 times)"]


NAMESPACES = "/api/v1/namespaces"


def namespace_inputs(api: Api) -> dict[str, Any]:
    return {"kubeconfig": api.kubeconfig, "name": "ml-team", "owner": "speculation/local"}


def test_a_namespace_that_was_there_is_kept_on_destroy(api: Api) -> None:
    api.put(NAMESPACES, {"metadata": {"name": "ml-team"}})
    gate, given = Namespace(), namespace_inputs(api)
    made = gate.create(given, Clock().run())
    assert made == {"made": False}
    gate.delete({**given, **made}, Clock().run())
    assert f"{NAMESPACES}/ml-team" in api.objects


def test_one_that_the_stack_made_is_removed(api: Api) -> None:
    gate, given = Namespace(), namespace_inputs(api)
    made = gate.create(given, Clock().run())
    assert made == {"made": True}
    assert api.objects[f"{NAMESPACES}/ml-team"]["metadata"]["annotations"] == {OWNER_ANNOTATION: "speculation/local"}
    # After a crash between creation and Pulumi's record of it, it is still ours.
    assert gate.create(given, Clock().run()) == {"made": True}
    gate.delete({**given, **made}, Clock().run())
    assert f"{NAMESPACES}/ml-team" not in api.objects


def test_one_that_does_not_end_says_what_holds_it(api: Api) -> None:
    held = condition(
        "NamespaceFinalizersRemaining", "True", "", "Some content has finalizers remaining: x in 1 resource instances"
    )
    api.put(NAMESPACES, {"metadata": {"name": "ml-team", "deletionTimestamp": "now"}, "status": {"conditions": [held]}})
    with pytest.raises(GateError) as raised:
        Namespace().delete({**namespace_inputs(api), "made": True}, Clock().run(4.0))
    assert str(raised.value) == (
        "waited 4 s in vain for the end of namespace ml-team: Some content has finalizers remaining: x in 1 resource "
        "instances"
    )
