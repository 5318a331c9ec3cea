"""Older manifests in the form of v0.3.1.

All releases share apiVersion v1alpha1, so what a manifest was written for is told by its shape:
- ModelDeployment: v0.1.0 has spec.engines, v0.2.0 and later have spec.template.spec.engines; nothing else moved.
- InferenceCluster: v0.1.0 has nodePools[].fabric as a string; up to v0.2.0 cluster.gke had the project.
- ServingStack: v0.1.0 called Google credentials GCPServiceAccountKey.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from engine.findings import Finding, Severity
from modelplane.kinds.base import subject_of
from modelplane.releases import DEPLOYED, Release

_TEMPLATE_SPEC = "spec.template.spec."
# spec.* keys of the v0.1.0 ModelDeployment that became spec.template.spec.*
_MOVED = ("clusterSelector", "modelCacheRef", "serving", "engines")
_OLD_GOOGLE_TYPE, _GOOGLE_TYPE = "GCPServiceAccountKey", "GoogleApplicationCredentials"


class Dialect(Enum):
    """Shape of a ModelDeployment."""

    ENGINES = "spec.engines"
    TEMPLATE = "spec.template.spec.engines"
    BOTH = "spec.engines and spec.template"
    NEITHER = "neither spec.engines nor spec.template"


@dataclass(frozen=True)
class Translation:
    """A manifest in the form of v0.3.1, and what there is to say about the one it was made from."""

    manifest: dict[str, Any]
    findings: tuple[Finding, ...] = ()
    moved: bool = False  # whether spec.template.spec was spec in the file

    def in_file(self, finding: Finding) -> Finding:
        """A finding about the translated manifest with the property path that the file has."""
        if not self.moved:
            return finding
        subject, separator, path = finding.path.partition(": ")
        for moved in _MOVED:
            if path.startswith(_TEMPLATE_SPEC + moved):
                return replace(finding, path=f"{subject}{separator}spec.{path.removeprefix(_TEMPLATE_SPEC)}")
        return finding


def dialect_of(manifest: Mapping[str, Any]) -> Dialect:
    """Which form a ModelDeployment has."""
    spec = manifest.get("spec")
    keys = spec.keys() if isinstance(spec, Mapping) else set()
    engines, template = "engines" in keys, "template" in keys
    if engines and template:
        return Dialect.BOTH
    return Dialect.ENGINES if engines else Dialect.TEMPLATE if template else Dialect.NEITHER


def translate(manifest: Mapping[str, Any], written_for: Release | None = None) -> Translation:
    """The manifest in the form of v0.3.1. written_for: the release its author names, when that is known."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping):
        return Translation(dict(manifest))  # the type says what is wrong with it
    kind = manifest.get("kind")
    if kind == "ModelDeployment":
        return _deployment(manifest, written_for)
    if kind == "InferenceCluster":
        return _cluster(manifest)
    if kind == "ServingStack":
        return _serving_stack(manifest)
    return Translation(copy.deepcopy(dict(manifest)))


def _deployment(manifest: Mapping[str, Any], written_for: Release | None) -> Translation:
    translated = copy.deepcopy(dict(manifest))
    spec, subject, dialect = translated["spec"], subject_of(manifest), dialect_of(manifest)
    findings: list[Finding] = []
    if dialect is Dialect.BOTH:
        why = "spec.engines is the form of v0.1.0 and spec.template the form of v0.2.0 and later"
        findings.append(Finding.error(f"{subject}: spec", dialect.value, why, "keep one of the two"))
        return Translation(translated, tuple(findings))
    if written_for is not None and dialect in (Dialect.ENGINES, Dialect.TEMPLATE):
        findings += _form_differs(subject, dialect, written_for)
    if dialect is Dialect.ENGINES:
        why = f"is the form of v0.1.0; it is deployed in the form of {DEPLOYED}, as {Dialect.TEMPLATE.value}"
        findings.append(Finding(Severity.INFO, f"{subject}: spec.engines", None, why))
        moved = {key: spec.pop(key) for key in list(spec) if key in _MOVED}
        spec["template"] = {"spec": moved}
    old = written_for or (Release.V0_1_0 if dialect is Dialect.ENGINES else DEPLOYED)
    if old.before(Release.V0_3_0):
        findings += _unapplied_metadata(translated, subject, old)
    translation = Translation(translated, moved=dialect is Dialect.ENGINES)
    return replace(translation, findings=tuple(translation.in_file(finding) for finding in findings))


def _form_differs(subject: str, dialect: Dialect, written_for: Release) -> Iterable[Finding]:
    expected = Dialect.ENGINES if written_for is Release.V0_1_0 else Dialect.TEMPLATE
    if dialect is not expected:
        why = f"Modelplane {written_for} refuses this form of a ModelDeployment; it takes {expected.value}"
        yield Finding.warning(f"{subject}: spec", dialect.value, why, f"fine for {DEPLOYED}, which is deployed")


def _unapplied_metadata(translated: Mapping[str, Any], subject: str, old: Release) -> Iterable[Finding]:
    """Labels and annotations on members: accepted but put on no pod before v0.3.0."""
    for engine_index, engine in enumerate(_items(translated["spec"]["template"], "spec", "engines")):
        for member_index, member in enumerate(_items(engine, "members")):
            metadata = _mapping(member, "template", "metadata")
            for key in ("labels", "annotations"):
                if metadata.get(key):
                    path = f"{_TEMPLATE_SPEC}engines[{engine_index}].members[{member_index}].template.metadata.{key}"
                    why = f"{old} accepted these and put them on no pod; {DEPLOYED} puts them on the engine pods"
                    given = ", ".join(f"{name}={value}" for name, value in _mapping(metadata, key).items())
                    yield Finding.warning(f"{subject}: {path}", given, why, "remove what is not meant")


def _cluster(manifest: Mapping[str, Any]) -> Translation:
    translated = copy.deepcopy(dict(manifest))
    spec, subject = translated["spec"], subject_of(manifest)
    findings = []
    for index, pool in enumerate(_items(spec, "nodePools")):
        if isinstance(pool, dict) and isinstance(pool.get("fabric"), str):
            path, name = f"{subject}: spec.nodePools[{index}].fabric", pool["fabric"]
            pool["fabric"] = {"type": name}
            why = f"is the form of v0.1.0; {DEPLOYED} has it as fabric.type"
            findings.append(Finding(Severity.INFO, path, name, why))
    gke = _mapping(spec, "cluster", "gke")
    if isinstance(gke, dict) and "project" in gke:
        project = gke.pop("project")
        why = f"{DEPLOYED} has no such field: the project is that of the Google provider configuration"
        remedy = f"set spec.projectID of the ClusterProviderConfig (gcp.m.upbound.io) to {project}"
        findings.append(Finding.warning(f"{subject}: spec.cluster.gke.project", project, why, remedy))
    return Translation(translated, tuple(findings))


def _serving_stack(manifest: Mapping[str, Any]) -> Translation:
    translated = copy.deepcopy(dict(manifest))
    findings = []
    for index, secret in enumerate(_items(translated["spec"], "secrets")):
        if isinstance(secret, dict) and secret.get("type") == _OLD_GOOGLE_TYPE:
            secret["type"] = _GOOGLE_TYPE
            path = f"{subject_of(manifest)}: spec.secrets[{index}].type"
            findings.append(Finding(Severity.INFO, path, _OLD_GOOGLE_TYPE, f"is called {_GOOGLE_TYPE} since v0.2.0"))
    return Translation(translated, tuple(findings))


def _mapping(node: object, *keys: str) -> Mapping[str, Any]:
    """The mapping below node at keys; empty where the manifest has something else (the type reports that)."""
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def _items(node: object, *keys: str) -> list[Any]:
    value = _mapping(node, *keys[:-1]).get(keys[-1])
    return value if isinstance(value, list) else []
