"""What every Modelplane kind shares: strict models, rules in two languages, object metadata, conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from engine.findings import Problems
from modelplane.problems import validation_findings

Name = Annotated[str, Field(min_length=1, max_length=253)]
Label63 = Annotated[str, Field(min_length=1, max_length=63)]


@dataclass(frozen=True)
class Rule:
    """A cross-field rule, once for Python and once for the API server: both must refuse the same objects.

    cel is evaluated with `self` bound to the object the rule belongs to, after defaults are applied.
    """

    message: str
    cel: str
    holds: Callable[[Any], bool]


class Model(BaseModel):
    """Strict object of the API: unknown keys are refused, nothing is coerced, keys are camelCase on the wire."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        broken = [rule.message for rule in self.RULES if not rule.holds(self)]
        if broken:
            raise PydanticCustomError("rule", "{why}", {"why": "; ".join(broken)})
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON schema, with the rules as the API server reads them."""
        json_schema = handler(schema)
        if cls.RULES:
            target = handler.resolve_ref_schema(json_schema)
            target["x-kubernetes-validations"] = [{"rule": rule.cel, "message": rule.message} for rule in cls.RULES]
        return json_schema


@dataclass(frozen=True)
class MapList:
    """Marks a list whose items are keyed: no two items may share all key fields (given by their wire names)."""

    keys: tuple[str, ...] = ("name",)

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], CoreSchema]) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._unique, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema["x-kubernetes-list-type"] = "map"
        json_schema["x-kubernetes-list-map-keys"] = list(self.keys)
        return json_schema

    def _unique(self, items: list[Model]) -> list[Model]:
        seen: set[tuple[object, ...]] = set()
        for item in items:
            key = tuple(getattr(item, name) for name in self.keys)
            if key in seen:
                shown = ", ".join(f"{name} {value}" for name, value in zip(self.keys, key, strict=True))
                raise PydanticCustomError("duplicate", "two items with {shown}", {"shown": shown})
            seen.add(key)
        return items


class OwnerReference(Model):
    """metadata.ownerReferences[]."""

    api_version: str
    kind: str
    name: str
    uid: str | None = None  # absent in exported objects
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    """Kubernetes object metadata, with the fields that only the server sets."""

    name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    generate_name: str | None = None
    namespace: Label63 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    self_link: str | None = None
    managed_fields: list[dict[str, Any]] | None = None


class Reference(Model):
    """Reference to an object by name."""

    name: Name


class MatchLabels(Model):
    """Equality-only label selector; without matchLabels it selects everything."""

    match_labels: dict[str, str] | None = None


class ResourceReference(Model):
    """spec.crossplane.resourceRefs[]: one composed object."""

    api_version: str
    kind: str
    name: str | None = None
    namespace: str | None = None


class CrossplaneSpec(Model):
    """spec.crossplane: what Crossplane itself adds to every composite resource."""

    composition_ref: Reference | None = None
    composition_selector: MatchLabels | None = None
    composition_revision_ref: Reference | None = None
    composition_revision_selector: MatchLabels | None = None
    composition_update_policy: Literal["Automatic", "Manual"] | None = None
    resource_refs: list[ResourceReference] | None = None


class Condition(Model):
    """status.conditions[]."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class Spec(Model):
    """Base of every spec: Crossplane's own part is optional on all of them."""

    crossplane: CrossplaneSpec | None = None


class Status(Model):
    """Base of every status: Crossplane adds the conditions Synced, Ready and Responsive."""

    conditions: Annotated[list[Condition], MapList(("type",))] | None = None


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`: heading and the JSON path of the value."""

    name: str
    json_path: str


@dataclass(frozen=True)
class Definition:
    """How a kind is served: names, scope, columns; scale = (spec path, status path) of the scale subresource."""

    kind: str
    plural: str
    short_name: str
    scope: Literal["Namespaced", "Cluster"]
    group: str = "modelplane.ai"
    columns: tuple[Column, ...] = ()
    scale: tuple[str, str] | None = None

    @property
    def api_version(self) -> str:
        """Group and version as they stand in a manifest."""
        return f"{self.group}/v1alpha1"

    @property
    def crd_name(self) -> str:
        """Name of the XRD and of the CRD that Crossplane makes from it."""
        return f"{self.plural}.{self.group}"


class Resource(Model):
    """A whole object of one kind; subclasses fix apiVersion, kind and spec."""

    DEFINITION: ClassVar[Definition]

    api_version: str
    kind: str
    metadata: ObjectMeta

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Parse one manifest; Problems lists everything that is wrong with it, each with its property path."""
        subject = subject_of(manifest)
        complete = {"apiVersion": None, "kind": None, **manifest}  # both are required on the wire
        try:
            return cls.model_validate(complete, by_alias=True, by_name=False)
        except ValidationError as error:
            raise Problems(validation_findings(cls, error, subject)) from None

    def to_manifest(self) -> dict[str, Any]:
        """The manifest with the keys that were given: no null, no default is written out."""
        body = self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    @property
    def name(self) -> str:
        """metadata.name, "" while the server has not generated it."""
        return self.metadata.name or ""

    @property
    def namespace(self) -> str:
        """metadata.namespace; Kubernetes puts an object without one in `default`."""
        return self.metadata.namespace or ("default" if self.DEFINITION.scope == "Namespaced" else "")


def subject_of(manifest: Mapping[str, Any]) -> str:
    """How findings name an object: `ModelDeployment/ml-team/qwen3-8b-spec`."""
    metadata = manifest.get("metadata")
    fields = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
    parts: Sequence[object] = (manifest.get("kind") or "?", fields.get("namespace"), fields.get("name") or "?")
    return "/".join(str(part) for part in parts if part)
