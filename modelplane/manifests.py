"""YAML with Modelplane objects -> typed kinds of v0.3.1; everything wrong with it as findings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from engine.findings import Finding, Problems, Severity
from modelplane.dialect import Translation, translate
from modelplane.kinds import KINDS, Resource, subject_of
from modelplane.releases import Release

# Kinds of Modelplane that this stack neither writes nor reads.
INTERNAL_KINDS = {
    kind: f"{kind} is composed by Modelplane itself for an InferenceCluster with that source"
    for kind in ("GKECluster", "EKSCluster", "AKSCluster", "NebiusCluster", "VultrCluster")
}
# Wider than any line: a folded arg could not be copied out of the output.
_UNFOLDED = 1_000_000
_GROUPS = ("modelplane.ai/", "infrastructure.modelplane.ai/")


@dataclass(frozen=True)
class Loaded:
    """What a file holds: typed objects, documents of other API groups, and findings (errors: something is missing).

    translations: how each of the objects came out of the file, in the same order.
    """

    objects: tuple[Resource, ...] = ()
    translations: tuple[Translation, ...] = ()
    foreign: tuple[dict[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()


def load_documents(documents: Iterable[object], written_for: Release | None = None, source: str = "") -> Loaded:
    """Typed objects of parsed YAML documents; source names the file in findings about a whole document."""
    pairs: list[tuple[Resource, Translation]] = []
    foreign: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue  # an empty document, as after a closing ---
        if not isinstance(document, Mapping):
            why = "is not a Kubernetes object (a mapping with apiVersion, kind, metadata and spec)"
            findings.append(Finding.error(f"{source} document {number}".strip(), document, why))
        elif _kind(document) in KINDS:
            translation = translate(document, written_for)
            found, problems = _typed(translation)
            findings += [*translation.findings, *problems]
            pairs += [(found, translation)] if found else []
        elif str(document.get("apiVersion")).startswith(_GROUPS):
            findings.append(_unknown_kind(document))
        else:
            foreign.append(dict(document))
    objects, translations = zip(*pairs, strict=True) if pairs else ((), ())
    return Loaded(tuple(objects), tuple(translations), tuple(foreign), tuple(findings))


def _typed(translation: Translation) -> tuple[Resource | None, list[Finding]]:
    if any(finding.severity is Severity.ERROR for finding in translation.findings):
        return None, []
    try:
        return KINDS[translation.manifest["kind"]].from_manifest(translation.manifest), []
    except Problems as problems:
        return None, [translation.in_file(finding) for finding in problems.findings]


def load_text(text: str, written_for: Release | None = None, source: str = "") -> Loaded:
    """Typed objects of YAML text."""
    try:
        documents = list(yaml.load_all(text, Loader=_StrictLoader))
    except yaml.YAMLError as error:
        return Loaded(findings=(Finding.error(source or "YAML", None, _yaml_problem(error)),))
    return load_documents(documents, written_for, source)


def dump(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Manifests as one YAML stream, keys in their order; args stay on one line, multi-line strings are blocks."""
    return yaml.dump_all(
        [dict(manifest) for manifest in manifests], Dumper=_Dumper, sort_keys=False, width=_UNFOLDED, allow_unicode=True
    )


def _kind(manifest: Mapping[str, Any]) -> str:
    kind = manifest.get("kind")
    return kind if isinstance(kind, str) else ""


def _unknown_kind(manifest: Mapping[str, Any]) -> Finding:
    kind, path = _kind(manifest), f"{subject_of(manifest)}: kind"
    if kind in INTERNAL_KINDS:
        return Finding.error(path, None, INTERNAL_KINDS[kind], "apply the InferenceCluster instead")
    if not kind:
        return Finding.error(path, None, "is required", f"one of {', '.join(KINDS)}")
    return Finding.error(path, None, "is no kind of Modelplane", f"known kinds: {', '.join(KINDS)}")


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        context = f" {error.context}" if error.context else ""
        return f"is not valid YAML:{context} {error.problem} at line {mark.line + 1}, column {mark.column + 1}"
    return f"is not valid YAML: {error}"


class _StrictLoader(yaml.SafeLoader):
    """YAML as the API server takes it: a key given twice is an error, a date stays text."""


def _mapping_without_duplicates(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    loader.flatten_mapping(node)
    seen: set[Hashable] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            why = f"the key {key!r} is not text (quote it)"
            raise yaml.constructor.ConstructorError(None, None, why, key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


def _text(loader: _StrictLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)
_StrictLoader.add_constructor("tag:yaml.org,2002:timestamp", _text)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as blocks, as they stand in recipes."""


def _block_strings(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block_strings)
