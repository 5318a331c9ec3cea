"""The types take what Modelplane v0.3.1 takes, refuse what it refuses, and give back exactly what they were given."""

from __future__ import annotations

from typing import Any

import pytest

from engine.findings import Problems
from modelplane.kinds import KINDS, ModelDeployment, ObjectMeta
from tests.modelplane.cases import ACCEPTED, DEPLOYMENT, changed
from tests.modelplane.refused import REFUSED
from tests.modelplane.shared import UPSTREAM, documents, needs_upstream


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_object_comes_back_unchanged(name: str) -> None:
    document = ACCEPTED[name]
    assert KINDS[document["kind"]].from_manifest(document).to_manifest() == document


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_object_is_reported_where_it_is_wrong(name: str) -> None:
    document, changes, path, why = REFUSED[name]
    with pytest.raises(Problems) as caught:
        KINDS[document["kind"]].from_manifest(changed(document, changes))
    (finding, *_) = caught.value.findings
    metadata = document["metadata"]
    subject = "/".join(filter(None, (document["kind"], metadata.get("namespace"), metadata["name"])))
    assert finding.path == f"{subject}: {path}"
    assert why in finding.line()


def test_all_problems_of_an_object_are_reported_at_once() -> None:
    wrong = changed(DEPLOYMENT, {"spec.replicas": 0, "spec.paused": True, "metadata.lables": {}})
    with pytest.raises(Problems) as caught:
        ModelDeployment.from_manifest(wrong)
    assert sorted(finding.path.partition(": ")[2] for finding in caught.value.findings) == [
        "metadata.lables",
        "spec.paused",
        "spec.replicas",
    ]


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "metadata", "spec"])
def test_the_four_parts_of_an_object_are_required(missing: str) -> None:
    with pytest.raises(Problems) as caught:
        ModelDeployment.from_manifest({key: value for key, value in DEPLOYMENT.items() if key != missing})
    assert [finding.path.partition(": ")[2] for finding in caught.value.findings] == [missing]


def test_an_object_built_in_python_is_the_manifest_without_defaults() -> None:
    parsed = ModelDeployment.from_manifest(DEPLOYMENT)
    built = ModelDeployment(metadata=ObjectMeta(name="qwen3-8b-spec", namespace="ml-team"), spec=parsed.spec)
    assert built.to_manifest() == DEPLOYMENT
    assert parsed.spec.template.spec.engines[0].copies == 1


def test_a_value_of_null_is_an_absent_one_as_on_the_api_server() -> None:
    parsed = ModelDeployment.from_manifest(changed(DEPLOYMENT, {"spec.template.metadata": None, "status": None}))
    assert parsed.to_manifest() == DEPLOYMENT


@needs_upstream
def test_what_modelplane_composed_is_read_with_status_and_comes_back_unchanged() -> None:
    read: dict[str, list[Any]] = {}
    for path in sorted((UPSTREAM / "golden" / "v0.3.1").glob("*.yaml")):
        for document in documents(path):
            if document["kind"] in KINDS:
                parsed = KINDS[document["kind"]].from_manifest(document)
                assert parsed.to_manifest() == document
                read.setdefault(document["kind"], []).append(parsed)
    assert set(KINDS) - set(read) == {"ModelCache"}  # the seed needs none
    (deployment,) = read["ModelDeployment"]
    assert deployment.status.replicas.ready == deployment.spec.replicas == 1
    (cluster,) = read["InferenceCluster"]
    assert cluster.status.gpu_pools[0].devices[0].capacity["memory"].value == "23034Mi"
