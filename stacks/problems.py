"""Pydantic's errors as findings: path, value, why, remedy; a value is shown only where it cannot be a secret."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from engine.findings import Finding

# Pydantic's word for a type -> what a person calls it.
TYPES = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
PATTERNS = {
    "(s|m|h)": ("is not a duration", "write a number and s, m or h, e.g. 20m"),
    "[a-z": ("is not a valid name", "use lower-case letters, digits and hyphens, a letter first"),
}


def section_findings(key: str, model: type[BaseModel], error: ValidationError, *, encrypted: bool) -> list[Finding]:
    """key: of the section, e.g. "speculation:platform"; encrypted: its whole value is a secret, so nothing of it is
    shown.
    """
    found = []
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        field, owner = _lookup(model, location)
        path = ".".join([key, *(str(part) for part in location)])
        value = None if encrypted or not _plain(field, detail["input"]) else detail["input"]
        why, remedy = _words(detail, field, owner, str(location[-1]) if location else "")
        found.append(Finding.error(path, value, why, remedy))
    return found


def unknown_key(path: str, key: str, known: Iterable[str]) -> Finding:
    """A key that nobody reads; its value is not shown, since it may be a secret under a wrong name."""
    known = sorted(known)
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return Finding.error(path, None, "is not a key of this stack", f"{hint}known keys: {', '.join(known)}")


def field_names(model: type[BaseModel]) -> list[str]:
    """The keys of a section as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def is_secret(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("secret"))


def nested(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is an object, or of the values of one that is a map of objects."""
    candidates: tuple[object, ...] = (field.annotation, *get_args(field.annotation))
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _lookup(model: type[BaseModel], location: Sequence[int | str]) -> tuple[FieldInfo | None, type[BaseModel] | None]:
    """The field at a location and the model that holds it; (None, model) for an unknown key of that model."""
    field: FieldInfo | None = None
    owner: type[BaseModel] | None = model
    for part in location:
        names = dict(zip(field_names(owner), owner.model_fields.values(), strict=True)) if owner else {}
        if part in names:
            field = names[str(part)]
            inner = nested(field)
            owner = inner or owner
        elif field is None or owner is None or nested(field) is None or field.annotation is nested(field):
            return None, owner
    return field, owner


def _plain(field: FieldInfo | None, value: object) -> bool:
    return (
        field is not None
        and not is_secret(field)
        and nested(field) is None
        and isinstance(value, str | int | float | bool)
    )


def _words(detail: Any, field: FieldInfo | None, owner: type[BaseModel] | None, key: str) -> tuple[str, str]:  # noqa: ANN401 - pydantic's
    kind, context = detail["type"], detail.get("ctx") or {}
    if kind == "extra_forbidden":
        finding = unknown_key("", key, field_names(owner) if owner else [])
        return finding.why, finding.remedy
    if kind == "missing":
        return "is missing", _described(field, "give it: ")
    if kind == "string_pattern_mismatch":
        return next(
            (words for part, words in PATTERNS.items() if part in context.get("pattern", "")), ("is malformed", "")
        )
    if kind == "string_too_short":
        return "is empty", _described(field)
    bounds = {
        "greater_than_equal": ("must be at least", "ge"),
        "less_than_equal": ("must be at most", "le"),
        "string_too_long": ("is longer than", "max_length"),
    }
    if kind in bounds:
        words, bound = bounds[kind]
        unit = " characters" if kind == "string_too_long" else ""
        return f"{words} {context[bound]}{unit}", _described(field)
    return TYPES.get(kind, detail["msg"]), _described(field)


def _described(field: FieldInfo | None, lead: str = "meaning: ") -> str:
    return lead + field.description.rstrip(".") if field is not None and field.description else ""
