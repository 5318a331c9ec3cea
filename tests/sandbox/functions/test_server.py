"""The gRPC side, through Crossplane's own messages."""

from __future__ import annotations

from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from sandbox.functions.model import Manifest, Settings
from sandbox.functions.server import COMPOSE, run
from tests.sandbox.functions.manifests import cluster, deployment


def request(composite: Manifest, **required: list[Manifest]) -> fnv1.RunFunctionRequest:
    made = fnv1.RunFunctionRequest()
    made.observed.composite.resource.update(composite)
    for name, items in required.items():
        for item in items:
            made.required_resources[name.replace("_", "-")].items.add().resource.update(item)
    return made


def test_an_answer_carries_resources_status_conditions_and_requirements() -> None:
    answer = run(request(deployment(), clusters=[cluster()]), Settings())
    replica = answer.desired.resources["replica-wl-0"]
    assert replica.ready == fnv1.READY_FALSE
    assert resource.struct_to_dict(replica.resource)["spec"]["clusterName"] == "wl"
    assert resource.struct_to_dict(answer.desired.composite.resource) == {
        "status": {"replicas": {"total": 1, "ready": 0}}
    }
    assert [(c.type, c.status, c.reason, c.message) for c in answer.conditions] == [
        ("ReplicasScheduled", fnv1.STATUS_CONDITION_FALSE, "Scheduling", ""),
        ("ReplicasReady", fnv1.STATUS_CONDITION_FALSE, "ModelStarting", "0 of 1 ready"),
    ]
    wanted = answer.requirements.resources["clusters"]
    assert (wanted.api_version, wanted.kind) == ("modelplane.ai/v1alpha1", "InferenceCluster")
    # A selector that matches all is there and empty: an absent one would mean something else.
    assert wanted.WhichOneof("match") == "match_labels"


def test_whole_numbers_stay_whole() -> None:
    """Crossplane's messages know only floating-point numbers."""
    answer = run(request(deployment(replicas=3), clusters=[cluster(nodes=0)]), Settings())
    assert answer.conditions[0].message == "0 of 3 replicas scheduled (checked 1 clusters)"


def test_a_kind_that_is_not_played_is_a_fatal_result() -> None:
    answer = run(request({"kind": "ModelCache", "metadata": {"name": "c"}}), Settings())
    (result,) = answer.results
    assert result.severity == fnv1.SEVERITY_FATAL
    assert "ModelCache" in result.message


def test_a_function_that_fails_says_so_on_its_composite() -> None:
    answer = run(request({"kind": "ModelEndpoint", "metadata": {"name": "e"}, "spec": {}}), Settings())
    (result,) = answer.results
    assert result.severity == fnv1.SEVERITY_FATAL
    assert result.message == "ModelEndpoint e: KeyError: 'url'"


def test_every_kind_has_a_definition() -> None:
    from sandbox.crossplane import objects  # noqa: PLC0415 (imports the definitions)

    kinds = [d["spec"]["names"]["kind"] for d in objects.definitions()]
    assert kinds == list(COMPOSE)
    assert [c["metadata"]["name"] for c in objects.compositions()] == [
        d["metadata"]["name"] for d in objects.definitions()
    ]
