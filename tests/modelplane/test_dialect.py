"""Older manifests are read in full and come out in the form of v0.3.1."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from engine.findings import Severity
from modelplane.dialect import Dialect, dialect_of, translate
from modelplane.manifests import INTERNAL_KINDS
from modelplane.releases import Release
from tests.modelplane.cases import CLUSTER, DEPLOYMENT, FULL, MEMBER, POD, STACK, changed
from tests.modelplane.shared import needs_upstream, parsed, samples


def in_old_form(document: dict[str, Any]) -> dict[str, Any]:
    """The v0.1.0 form of a deployment of the v0.3.1 form."""
    old = copy.deepcopy(document)
    template = old["spec"].pop("template")
    assert set(template) <= {"metadata", "spec"}
    old["spec"] |= template["spec"]
    return old


OLD = in_old_form(DEPLOYMENT)
FULL_OLD = in_old_form(changed(FULL, {"spec.template.spec.tolerations": None}))
del FULL_OLD["spec"]["tolerations"]  # came with v0.2.0


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        (OLD, Dialect.ENGINES),
        (DEPLOYMENT, Dialect.TEMPLATE),
        (changed(DEPLOYMENT, {"spec.engines": []}), Dialect.BOTH),
        ({"kind": "ModelDeployment", "spec": {"replicas": 1}}, Dialect.NEITHER),
        ({"kind": "ModelDeployment"}, Dialect.NEITHER),
    ],
)
def test_the_dialects_are_told_apart_by_shape(document: dict[str, Any], dialect: Dialect) -> None:
    assert dialect_of(document) is dialect


def test_the_old_form_becomes_the_new_one_without_losing_a_field() -> None:
    before = copy.deepcopy(FULL_OLD)
    translated = translate(FULL_OLD).manifest
    assert before == FULL_OLD, "the input is left alone"
    assert translated["spec"] == {
        "replicas": before["spec"].pop("replicas"),
        "template": {"spec": before["spec"]},
    }
    assert {key: value for key, value in translated.items() if key != "spec"} == {
        key: value for key, value in before.items() if key != "spec"
    }
    assert translate(OLD).manifest == DEPLOYMENT


def test_a_translation_is_said() -> None:
    _, findings = parsed(OLD)
    assert [finding.line() for finding in findings] == [
        "info: ModelDeployment/ml-team/qwen3-8b-spec: spec.engines: is the form of v0.1.0; "
        "it is deployed in the form of v0.3.1, as spec.template.spec.engines"
    ]
    assert parsed(DEPLOYMENT)[1] == []


def test_both_forms_in_one_object_are_refused() -> None:
    found, findings = parsed(changed(DEPLOYMENT, {"spec.engines": OLD["spec"]["engines"]}))
    assert found is None
    assert [(finding.severity, finding.path) for finding in findings] == [
        (Severity.ERROR, "ModelDeployment/ml-team/qwen3-8b-spec: spec")
    ]


@pytest.mark.parametrize(
    ("document", "written_for", "warned"),
    [
        (OLD, Release.V0_1_0, 0),
        (OLD, Release.V0_2_0, 1),
        (OLD, Release.V0_3_1, 1),
        (DEPLOYMENT, Release.V0_1_0, 1),
        (DEPLOYMENT, Release.V0_2_0, 0),
        (DEPLOYMENT, Release.V0_3_1, 0),
    ],
)
def test_a_form_that_the_named_release_refuses_is_said(
    document: dict[str, Any], written_for: Release, warned: int
) -> None:
    found, findings = parsed(document, written_for)
    assert found is not None
    assert len([f for f in findings if f.severity is Severity.WARNING]) == warned


@pytest.mark.parametrize(
    ("document", "written_for", "paths"),
    [
        (FULL_OLD, None, ["spec.engines[0].members[0].template.metadata." + key for key in ("labels", "annotations")]),
        (FULL, Release.V0_2_0, [f"{POD}.metadata.{key}" for key in ("labels", "annotations")]),
        (FULL, None, []),
        (FULL, Release.V0_3_1, []),
    ],
)
def test_pod_labels_that_an_old_release_silently_dropped_are_said(
    document: dict[str, Any], written_for: Release | None, paths: list[str]
) -> None:
    _, findings = parsed(document, written_for)
    warned = [f.path.partition(": ")[2] for f in findings if f.severity is Severity.WARNING]
    assert warned == paths


def test_a_problem_in_the_old_form_is_reported_where_the_file_has_it() -> None:
    broken = in_old_form(changed(DEPLOYMENT, {f"{MEMBER}.role": "Boss"}))
    _, findings = parsed(broken)
    assert findings[-1].path.endswith(": spec.engines[0].members[0].role")


def test_the_google_project_of_an_old_cluster_is_said_and_not_lost() -> None:
    gke = {"region": "us-central1", "project": "my-project"}
    old = changed(CLUSTER, {"spec.cluster": {"source": "GKE", "gke": gke}})
    found, (finding,) = parsed(old)
    assert found is not None
    assert found.to_manifest() == changed(old, {"spec.cluster.gke": {"region": "us-central1"}})
    assert (finding.severity, finding.value) == (Severity.WARNING, "my-project")
    assert "my-project" in finding.remedy


def test_an_old_fabric_and_an_old_google_secret_are_renamed() -> None:
    fabric, _ = parsed(changed(CLUSTER, {"spec.nodePools[0].fabric": "EFA"}))
    assert fabric is not None
    assert fabric.to_manifest() == changed(CLUSTER, {"spec.nodePools[0].fabric": {"type": "EFA"}})
    google = {"type": "GCPServiceAccountKey", "name": "sa", "key": "private_key"}
    stack, _ = parsed(changed(STACK, {"spec.secrets[1]": google}))
    assert stack is not None
    assert stack.to_manifest()["spec"]["secrets"][1] == google | {"type": "GoogleApplicationCredentials"}


# --- upstream's own manifests ---


def leaves(node: Any) -> list[tuple[str, Any]]:
    """(last key, value) of every scalar: what a translation may move but not lose."""
    if isinstance(node, dict):
        return [
            leaf
            for key, value in node.items()
            for leaf in (leaves(value) if isinstance(value, dict | list) else [(key, value)])
        ]
    return [leaf for item in node for leaf in (leaves(item) if isinstance(item, dict | list) else [("", item)])]


# What a translation may change, per kind: (leaf as it was, leaf as it becomes or None).
RENAMED = {
    ("type", "GCPServiceAccountKey"): ("type", "GoogleApplicationCredentials"),
    ("fabric", "EFA"): ("type", "EFA"),
    ("project", "my-gcp-project"): None,  # said in a finding, see above
}


@needs_upstream
@pytest.mark.parametrize("release", ["v0.1.0", "v0.2.0", "v0.3.1"])
def test_every_upstream_manifest_is_read_without_loss_or_refused_for_a_listed_reason(release: str) -> None:
    count = 0
    refused = []
    for path, document in samples(release):
        count += 1
        found, findings = parsed(document)
        if found is None:
            refused.append((path, document["kind"], [f.why for f in findings]))
            continue
        manifest = found.to_manifest()
        if manifest == document:
            assert findings == []
            continue
        assert release != "v0.3.1", path
        assert findings, f"{path}: changed without a word"
        renamed = [RENAMED.get(leaf, leaf) for leaf in leaves(document)]
        assert sorted(map(repr, filter(None, renamed))) == sorted(map(repr, leaves(manifest))), path
    kinds = {"v0.1.0": ["EKS", "GKE"], "v0.2.0": ["AKS", "EKS", "GKE", "Nebius"]}
    internal = kinds.get(release, ["AKS", "EKS", "GKE", "Nebius", "Vultr"])
    assert refused == [
        (f"reference/{name.lower()}clusters.yaml", f"{name}Cluster", [INTERNAL_KINDS[f"{name}Cluster"]])
        for name in internal
    ]
    assert count == {"v0.1.0": 57, "v0.2.0": 84, "v0.3.1": 102}[release]


@needs_upstream
def test_the_two_published_forms_of_one_deployment_are_one() -> None:
    """The v0.1.0 and v0.2.0 documentation show the same deployment in the two forms."""
    old = dict(samples("v0.1.0"))["reference/modeldeployments.yaml"]
    new = dict(samples("v0.2.0"))["reference/modeldeployments.yaml"]
    assert dialect_of(old) is Dialect.ENGINES
    assert translate(old).manifest == new
