"""YAML files: what is no Modelplane object, no YAML, or says a thing twice."""

from __future__ import annotations

import pytest
import yaml

from modelplane.kinds import KINDS
from modelplane.manifests import dump, load_text
from tests.modelplane.cases import ACCEPTED, DEPLOYMENT, SERVICE


def lines(text: str) -> list[str]:
    return [finding.line() for finding in load_text(text, source="file.yaml").findings]


def test_a_file_of_every_kind_is_read_in_order_and_written_back() -> None:
    text = dump(ACCEPTED.values())
    loaded = load_text(text)
    assert loaded.findings == ()
    assert [found.to_manifest() for found in loaded.objects] == list(ACCEPTED.values())
    assert {found.kind for found in loaded.objects} == set(KINDS)
    assert list(yaml.safe_load_all(text)) == list(ACCEPTED.values())


def test_a_selector_is_written_as_a_block() -> None:
    assert "- cel: |\n" in dump([DEPLOYMENT])


def test_objects_of_other_groups_are_kept_apart() -> None:
    loaded = load_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: ml-team}\n---\n" + dump([SERVICE]) + "---\n")
    assert [document["kind"] for document in loaded.foreign] == ["Namespace"]
    assert [found.kind for found in loaded.objects] == ["ModelService"]
    assert loaded.findings == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1", "error: file.yaml: is not valid YAML: while parsing a flow sequence expected ',' or ']', but got "
                  "'<stream end>' at line 1, column 6"),
        ("kind: A\nkind: B", "error: file.yaml: is not valid YAML: the key 'kind' is given twice at line 2, column 1"),
        ("1: x", "error: file.yaml: is not valid YAML: the key 1 is not text (quote it) at line 1, column 1"),
        ("apiVersion: modelplane.ai/v1alpha1\nkind: [a]\nmetadata: 3",
         f"error: ['a']/?: kind: is required; one of {', '.join(KINDS)}"),
        ("apiVersion: modelplane.ai/v1alpha1\nkind: ModelService\nmetadata: {name: x}\nspec: 4",
         "error: ModelService/x: spec: 4: must be a mapping"),
        ("- 1", "error: file.yaml document 1: [1]: is not a Kubernetes object (a mapping with apiVersion, kind, "
                "metadata and spec)"),
        ("apiVersion: modelplane.ai/v1alpha1\nkind: ModelDeploymnt\nmetadata: {name: x}",
         f"error: ModelDeploymnt/x: kind: is no kind of Modelplane; known kinds: {', '.join(KINDS)}"),
        ("apiVersion: modelplane.ai/v1alpha1\nmetadata: {name: x}",
         f"error: ?/x: kind: is required; one of {', '.join(KINDS)}"),
        ("apiVersion: infrastructure.modelplane.ai/v1alpha1\nkind: GKECluster\nmetadata: {name: x}",
         "error: GKECluster/x: kind: GKECluster is composed by Modelplane itself for an InferenceCluster with that "
         "source; apply the InferenceCluster instead"),
        ("apiVersion: modelplane.ai/v1beta1\nkind: InferenceGateway\nmetadata: {name: default}\n"
         "spec: {backend: Traefik, traefik: {version: 40.2.0}}",
         "error: InferenceGateway/default: apiVersion: modelplane.ai/v1beta1: should be 'modelplane.ai/v1alpha1'"),
    ],
)  # fmt: skip
def test_bad_input_gives_one_clear_line(text: str, line: str) -> None:
    assert lines(text) == [line]


def test_a_date_stays_text_as_on_the_api_server() -> None:
    text = dump([SERVICE]).replace("name: qwen3-8b-spec\n", "name: qwen3-8b-spec\n  labels: {day: 2026-01-01}\n", 1)
    (service,) = load_text(text).objects
    assert service.metadata.labels == {"day": "2026-01-01"}
