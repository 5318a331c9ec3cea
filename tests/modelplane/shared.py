"""Upstream's schemas, manifests and golden objects, where they are present; the suite does not depend on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.findings import Finding
from modelplane.kinds import KINDS, Resource
from modelplane.manifests import load_documents
from modelplane.releases import Release

UPSTREAM = Path(__file__).resolve().parents[3] / "shared" / "modelplane"
needs_upstream = pytest.mark.skipif(not UPSTREAM.is_dir(), reason=f"no upstream samples in {UPSTREAM}")


def documents(path: Path) -> list[dict[str, Any]]:
    """The YAML documents of one file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def golden(name: str) -> list[dict[str, Any]]:
    """Objects that Modelplane v0.3.1 itself composed, e.g. "control-plane.modelreplicas"."""
    return documents(UPSTREAM / "golden" / "v0.3.1" / f"{name}.yaml")


def samples(release: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path below manifests/, document) of Modelplane's own kinds in the manifests of a release."""
    root = UPSTREAM / release / "manifests"
    for path in sorted(root.rglob("*.yaml")):
        for document in documents(path):
            if document["apiVersion"].endswith("modelplane.ai/v1alpha1"):
                yield str(path.relative_to(root)), document


def parsed(document: dict[str, Any], written_for: Release | None = None) -> tuple[Resource | None, list[Finding]]:
    """One document as a typed object (None when a finding is an error), and its findings."""
    loaded = load_documents([document], written_for)
    return next(iter(loaded.objects), None), list(loaded.findings)


def is_known(document: dict[str, Any]) -> bool:
    """Whether this stack has a type for the document's kind."""
    return document["kind"] in KINDS
