"""Devices as InferenceClass declares them and InferenceCluster's status repeats them (DRA's model)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from modelplane.kinds.base import Label63, Model, Name, Rule


class AttributeValue(Model):
    """A typed attribute: exactly one of string, version, bool, int."""

    string_value: Annotated[str, Field(max_length=253)] | None = Field(default=None, alias="string")
    version_value: Annotated[str, Field(max_length=32)] | None = Field(default=None, alias="version")
    bool_value: bool | None = Field(default=None, alias="bool")
    int_value: Annotated[int, Field(json_schema_extra={"format": "int64"})] | None = Field(default=None, alias="int")

    RULES = (
        Rule(
            "exactly one of string, version, bool, int must be set",
            "[has(self.string), has(self.version), has(self.bool), has(self.int)].filter(given, given).size() == 1",
            lambda a: sum(v is not None for v in (a.string_value, a.version_value, a.bool_value, a.int_value)) == 1,
        ),
    )

    @property
    def value(self) -> str | bool | int:
        """The one value that is set; a version is returned as its text."""
        given = (self.string_value, self.version_value, self.bool_value, self.int_value)
        return next(value for value in given if value is not None)


class CapacityValue(Model):
    """A Kubernetes quantity, e.g. 23034Mi: what the DRA driver reports, not the nominal figure."""

    value: Annotated[str, Field(min_length=1, max_length=32)]


class Device(Model):
    """One kind of device on a node of the class; count is per node. driver is the CEL domain."""

    name: Label63
    driver: Name
    claim: Literal["DRA", "Synthetic"] = "DRA"
    device_class_name: Name | None = None
    count: Annotated[int, Field(ge=1, le=64)] = 1
    attributes: Annotated[dict[str, AttributeValue], Field(max_length=32)] | None = None
    capacity: Annotated[dict[str, CapacityValue], Field(max_length=32)] | None = None

    RULES = (
        Rule(
            "deviceClassName is required when claim is DRA",
            "has(self.deviceClassName) || self.claim != 'DRA'",
            lambda d: d.device_class_name is not None or d.claim != "DRA",
        ),
    )
