"""The configuration reference (docs/configuration.md), generated from the schema so that it cannot fall behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stacks.problems import is_secret, nested
from stacks.schema import SECTIONS, TEXT_KEYS

HEAD = """\
# Configuration

<!-- Generated: `python -m stacks.settings > docs/configuration.md`. -->

A stack is one file, `stacks/Pulumi.<stack>.yaml`. Its keys have the namespace `speculation`. Everything that is wrong
with them fails `pulumi preview` at once, a line each. Set a value in an object with

    pulumi config set --path speculation:platform.nodePool.nodeCount 2

and a secret with `--secret`:

    pulumi config set --secret --path speculation:secrets.huggingFaceToken

| key | type | default | meaning |
|---|---|---|---|
"""

TYPES = {"str": "text", "int": "whole number", "bool": "true or false"}


def configuration_reference() -> str:
    """The whole document."""
    rows = [("speculation:" + key, "text", "required", text) for key, text in TEXT_KEYS.items()]
    for key, model in SECTIONS.items():
        rows.append((f"speculation:{key}", "object", _section_default(model), _first(model.__doc__)))
        rows += _rows(f"speculation:{key}", model)
    return HEAD + "".join(f"| `{key}` | {kind} | {default} | {text} |\n" for key, kind, default, text in rows)


def _rows(prefix: str, model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    for name, field in model.model_fields.items():
        path = f"{prefix}.{field.alias or name}"
        inner = nested(field)
        text = (field.description or "").replace("|", "\\|")
        if inner is None:
            kind = "secret text" if is_secret(field) else _kind(field)
            yield path, kind, _default(field), text
            continue
        if field.annotation is not inner:
            path += ".NAME"
        yield path, "object", "required" if field.is_required() else "", text
        yield from _rows(path, cast("type[BaseModel]", inner))


def _kind(field: FieldInfo) -> str:
    text = str(field.annotation)
    return next((words for name, words in TYPES.items() if name in text), "text")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def _section_default(model: type[BaseModel]) -> str:
    return "required" if any(field.is_required() for field in model.model_fields.values()) else ""


def _first(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
