"""Strict reading of JSON documents into frozen dataclasses: all unknown, missing or wrongly typed fields are named."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from engine.findings import Finding, Problems, Severity

T = TypeVar("T")


def error(path: str, value: object, why: str, remedy: str = "") -> Finding:
    """A finding of severity error."""
    return Finding(Severity.ERROR, path, value, why, remedy)


def load_object(text: str | bytes, path: str) -> dict[str, Any]:
    """The JSON object in `text`; Problems when it is not one."""
    try:
        document = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as problem:
        raise Problems([error(path, None, f"not JSON: {problem}")]) from problem
    if not isinstance(document, dict):
        raise Problems([error(path, document, "not a JSON object")])
    return document


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


def require_schema(document: Mapping[str, Any], known: int, path: str) -> None:
    """Refuse a document of another schema number before anything else in it is looked at."""
    found = document.get("schema")
    if found != known or isinstance(found, bool):
        why = f"this program reads schema {known} only"
        raise Problems([error(f"{path}.schema", found, why, "use the program of the version that wrote it")])


def build(kind: type[T], value: object, path: str) -> T:
    """`value` (as json.loads gives it) as an instance of the dataclass `kind`; Problems lists all that is wrong."""
    findings: list[Finding] = []
    result = _read(kind, value, path, findings)
    if findings:
        raise Problems(findings)
    return cast(T, result)


def _read(kind: object, value: object, path: str, findings: list[Finding]) -> object:
    if get_origin(kind) is types.UnionType:  # only `X | None` is used
        return None if value is None else _read(get_args(kind)[0], value, path, findings)
    if get_origin(kind) is tuple:
        return _read_list(get_args(kind)[0], value, path, findings)
    if get_origin(kind) is dict:  # names that are not ours, any values
        return _read_scalar(dict, value, path, findings)
    if not isinstance(kind, type):
        raise TypeError(f"{path}: fields of kind {kind!r} are not read")
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, path, findings)
    return _read_scalar(kind, value, path, findings)


def _read_list(kind: object, value: object, path: str, findings: list[Finding]) -> tuple[object, ...]:
    if not isinstance(value, list):
        findings.append(error(path, value, "not a list"))
        return ()
    return tuple(_read(kind, item, f"{path}[{i}]", findings) for i, item in enumerate(value))


def _read_scalar(kind: type, value: object, path: str, findings: list[Finding]) -> object:
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            findings.append(error(path, value, f"not one of {', '.join(kind)}"))
            return None
        return kind(str(value))
    accepted = (int, float) if kind is float else kind
    # bool is an int in Python; it is not in JSON.
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        findings.append(error(path, value, f"not of type {kind.__name__}"))
    return value


def _read_dataclass(kind: type, value: object, path: str, findings: list[Finding]) -> object:
    if not isinstance(value, dict):
        findings.append(error(path, value, "not an object"))
        return None
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    before = len(findings)
    findings += [error(f"{path}.{name}", value[name], "unknown field") for name in value if name not in fields]
    found: dict[str, object] = {}
    for name, field in fields.items():
        if name in value:
            found[name] = _read(hints[name], value[name], f"{path}.{name}", findings)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            findings.append(error(f"{path}.{name}", None, "missing"))
    return kind(**found) if len(findings) == before else None
