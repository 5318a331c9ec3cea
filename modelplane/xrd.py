"""Crossplane v2 CompositeResourceDefinitions made from the types, for a control plane without Modelplane's package."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from modelplane.kinds import KINDS, Resource

# Keywords of pydantic's JSON schema that a structural schema of the API server has no place for.
_DROPPED = ("title", "additionalProperties", "$defs")
# Crossplane adds these itself to every composite resource.
_INJECTED = {"spec": "crossplane", "status": "conditions"}


def xrd(kind: str | type[Resource]) -> dict[str, Any]:
    """The XRD of a kind (apiextensions.crossplane.io/v2), by kind name ("ModelDeployment") or by its type."""
    model = KINDS[kind] if isinstance(kind, str) else kind
    definition = model.DEFINITION
    version: dict[str, Any] = {"name": "v1alpha1", "served": True, "referenceable": True}
    if definition.columns:
        version["additionalPrinterColumns"] = [
            {"name": column.name, "type": "string", "jsonPath": column.json_path} for column in definition.columns
        ]
    if definition.scale:
        spec_path, status_path = definition.scale
        version["subresources"] = {"scale": {"specReplicasPath": spec_path, "statusReplicasPath": status_path}}
    version["schema"] = {"openAPIV3Schema": schema(model)}
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": definition.crd_name},
        "spec": {
            "group": definition.group,
            "names": {
                "kind": definition.kind,
                "plural": definition.plural,
                "shortNames": [definition.short_name],
                "categories": ["crossplane", "modelplane"],
            },
            "scope": definition.scope,
            "versions": [version],
        },
    }


def schema(model: type[Resource]) -> dict[str, Any]:
    """Structural OpenAPI schema of spec and status, without what Crossplane injects."""
    raw = TypeAdapter(model).json_schema(by_alias=True)
    definitions = raw.get("$defs", {})
    properties = {}
    for part, injected in _INJECTED.items():
        structural = _structural(raw["properties"][part], definitions)
        structural["properties"].pop(injected)
        properties[part] = structural
    return {"type": "object", "description": raw["description"], "required": ["spec"], "properties": properties}


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """One schema node with references resolved, optional-by-null undone and unknown keywords dropped."""
    node = dict(node)
    if "$ref" in node:
        target = definitions[node.pop("$ref").removeprefix("#/$defs/")]
        node = {**target, **node}
    if "anyOf" in node:  # X | None: an absent key, never a null
        (option,) = [entry for entry in node.pop("anyOf") if entry.get("type") != "null"]
        return _structural({**option, **_without_null_default(node)}, definitions)
    node = _without_null_default(node)
    values = node.get("additionalProperties")
    for keyword in _DROPPED:
        node.pop(keyword, None)
    if isinstance(values, dict):
        node["additionalProperties"] = _structural(values, definitions)
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "properties" in node:
        node["properties"] = {key: _structural(value, definitions) for key, value in node["properties"].items()}
    if "items" in node:
        node["items"] = _structural(node["items"], definitions)
    return node


def _without_null_default(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if not (key == "default" and value is None)}
