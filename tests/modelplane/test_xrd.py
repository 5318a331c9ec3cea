"""The XRDs made from the types are structural schemas and carry every rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from modelplane.kinds import KINDS
from modelplane.xrd import xrd
from tests.modelplane.shared import UPSTREAM, documents, needs_upstream

# Keywords that a structural schema of the API server knows, as far as these types need them.
KEYWORDS = {
    "type", "description", "properties", "required", "items", "additionalProperties", "enum", "default", "format",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "pattern",
    "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
}  # fmt: skip


def nodes(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(f"{path}.{name}", child)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from nodes(f"{path}[]", schema[keyword])


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("kind", KINDS)
def test_every_node_of_a_schema_is_structural(kind: str) -> None:
    for path, node in nodes(kind, schema_of(xrd(kind))):
        assert "type" in node, path
        assert set(node) <= KEYWORDS, path


def keywords(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each path allows, without texts and rules (the API server test compares those by what they refuse)."""
    ignored = {
        "description",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-validations",
        "minProperties",
    }
    found = {
        path: {key: value for key, value in node.items() if key not in ignored} for path, node in nodes("", schema)
    }
    for node in found.values():
        for listing in ("required", "enum"):
            if listing in node:
                node[listing] = sorted(node[listing])
        if node.get("x-kubernetes-list-type") == "atomic":
            del node["x-kubernetes-list-type"]  # the default
    return {path: node for path, node in found.items() if not path.startswith(".status.conditions")}


# Where our schemas differ from those of v0.3.1 on purpose: (kind, path, keyword).
INTENDED = {
    # required beside a default asks for nothing: the default is set first
    ("ModelDeployment", ".spec.template.spec.serving", "required"),
    # a template without a spec has no container to run
    ("ModelDeployment", ".spec.template.spec.engines[].members[].template", "required"),
    ("ModelReplica", ".spec.engines[].members[].template", "required"),
    # the only selector there is; upstream asks for at least one property instead
    ("ModelDeployment", ".spec.template.spec.engines[].members[].nodeSelector.devices[].selectors[]", "required"),
    ("ModelReplica", ".spec.engines[].members[].deviceRequests[].selectors[]", "required"),
    # a status repeats the spec's values, which are never empty
    ("InferenceCluster", ".status.cache.storageClassName", "minLength"),
    ("InferenceCluster", ".status.gpuPools[].devices[].capacity[].value", "minLength"),
}


@needs_upstream
@pytest.mark.parametrize("kind", KINDS)
def test_names_scope_bounds_and_defaults_are_those_of_the_released_schema(kind: str) -> None:
    ours = xrd(kind)
    (theirs,) = documents(UPSTREAM / "v0.3.1" / "xrds" / f"{ours['spec']['names']['plural']}.yaml")
    assert ours["metadata"] == theirs["metadata"]
    assert ours["spec"]["names"] == theirs["spec"]["names"]
    assert ours["spec"]["scope"] == theirs["spec"]["scope"]
    own, released = keywords(schema_of(ours)), keywords(schema_of(theirs))
    assert set(own) == set(released)
    differing = {
        (kind, path, key)
        for path in own
        for key in set(own[path]) | set(released[path])
        if own[path].get(key) != released[path].get(key)
    }
    assert differing == {difference for difference in INTENDED if difference[0] == kind}
