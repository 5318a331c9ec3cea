"""Pydantic's errors as findings: property path, value, why, remedy."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from engine.findings import Finding

# Pydantic's words for these speak of Python.
_TYPES = {
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "string_type": "must be text (quote it)",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
}


def property_path(loc: Sequence[int | str]) -> str:
    """("spec", "engines", 0, "name") -> "spec.engines[0].name"; a key with dots is quoted."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif "." in part or "/" in part:
            path += f'["{part}"]'
        else:
            path += f".{part}" if path else part
    return path


def validation_findings(model: type[BaseModel], error: ValidationError, subject: str) -> list[Finding]:
    """One error finding per pydantic error; subject (may be "") stands before the property path."""
    return [_finding(model, details, subject) for details in error.errors(include_url=False)]


def _finding(model: type[BaseModel], details: ErrorDetails, subject: str) -> Finding:
    loc = tuple(part for part in details["loc"] if part != "[key]")
    path = f"{subject}: {property_path(loc)}" if subject else property_path(loc)
    kind, value = details["type"], details["input"]
    shown = None if isinstance(value, dict | list | BaseModel) else value
    if kind == "extra_forbidden":
        return Finding.error(path, shown, "unknown key", _known_keys(model, loc))
    if kind == "missing":
        return Finding.error(path, None, "is required", "add it")
    if kind == "rule":
        return Finding.error(path, shown, details["msg"], "correct it: the API server refuses it for the same reason")
    if kind == "duplicate":
        return Finding.error(path, shown, details["msg"], "rename or remove one of them")
    return Finding.error(path, shown, _TYPES.get(kind) or _sentence(details))


def _sentence(details: ErrorDetails) -> str:
    text = details["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _known_keys(model: type[BaseModel], loc: Sequence[int | str]) -> str:
    parent = _model_at(model, loc[:-1])
    if parent is None:
        return "remove it"
    keys = sorted(field.alias or name for name, field in parent.model_fields.items())
    close = difflib.get_close_matches(str(loc[-1]), keys, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known keys: {', '.join(keys)}"


def _model_at(model: type[BaseModel], loc: Sequence[int | str]) -> type[BaseModel] | None:
    current: object = model
    for part in loc:
        found = next(_models(current), None)
        if isinstance(part, int) or found is None:
            continue  # a list index or a map key stays on the same item type
        field = next((f for name, f in found.model_fields.items() if (f.alias or name) == part), None)
        if field is None:
            return None
        current = field.annotation
    return next(_models(current), None)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """The models inside an annotation such as `list[X] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)
