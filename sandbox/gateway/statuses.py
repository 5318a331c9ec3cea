"""Which statuses the objects of one gateway should have, in the shapes that Modelplane v0.3.1 was seen to meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from sandbox.gateway.backends import valid
from sandbox.gateway.dialects import Dialect
from sandbox.gateway.routes import Unsupported, parent_of, parent_refs, rules_of
from sandbox.gateway.snapshot import Manifest, Snapshot

Status = dict[str, Any]
# Kind, object, its status as it should be.
Wanted = tuple[str, Manifest, Status]


def wanted(snapshot: Snapshot, dialect: Dialect) -> Iterator[Wanted]:
    """Every status of this gateway's that differs from what the object has now."""
    for kind, manifest, status in _all(snapshot, dialect):
        current = manifest.get("status") or {}
        if any(_timeless(current.get(name)) != _timeless(value) for name, value in status.items()):
            yield kind, manifest, status


def _all(snapshot: Snapshot, dialect: Dialect) -> Iterator[Wanted]:
    classes = {
        item["metadata"]["name"]
        for item in snapshot.all("GatewayClass")
        if item["spec"]["controllerName"] == dialect.controller
    }
    for item in snapshot.all("GatewayClass"):
        if item["metadata"]["name"] in classes:
            yield "GatewayClass", item, _class_status(item, dialect)
    for item in snapshot.all("Gateway"):
        if item["spec"]["gatewayClassName"] in classes:
            yield "Gateway", item, _gateway_status(item, dialect)
    for item in snapshot.all("HTTPRoute"):
        if (status := _route_status(snapshot, item, dialect)) is not None:
            yield "HTTPRoute", item, status


def _class_status(item: Manifest, dialect: Dialect) -> Status:
    current = (item.get("status") or {}).get("conditions") or []
    accepted = _condition(current, "Accepted", "True", "Accepted", dialect.class_message)
    return {"conditions": [accepted]}


def _gateway_status(item: Manifest, dialect: Dialect) -> Status:
    current = (item.get("status") or {}).get("conditions") or []
    generation = item["metadata"].get("generation", 1)
    conditions = [
        _condition(current, kind, "True", kind, "", observedGeneration=generation)
        for kind in ("Programmed", "Accepted")
    ]
    return {"addresses": [dict(dialect.address)], "conditions": conditions}


def _route_status(snapshot: Snapshot, item: Manifest, dialect: Dialect) -> Status | None:
    """None when the route has nothing to do with this gateway."""
    current = (item.get("status") or {}).get("parents") or []
    others = [parent for parent in current if parent["controllerName"] != dialect.controller]
    own = [ref for ref in parent_refs(item) if parent_of(snapshot, item, ref, dialect.controller)]
    if not own and len(others) == len(current):
        return None
    return {"parents": [*others, *(_parent(snapshot, item, ref, dialect, current) for ref in own)]}


def _parent(
    snapshot: Snapshot, item: Manifest, ref: Mapping[str, Any], dialect: Dialect, current: Sequence[Mapping[str, Any]]
) -> Status:
    before: list[Mapping[str, Any]] = next(
        (parent["conditions"] for parent in current if parent["parentRef"] == ref), []
    )
    try:
        rules = list(rules_of(item))
    except Unsupported as unsupported:
        message = f"{unsupported} is not supported"
        accepted = _condition(before, "Accepted", "False", "UnsupportedValue", message)
        resolved = _condition(before, "ResolvedRefs", "True", "ResolvedRefs", "")
    else:
        accepted = _condition(before, "Accepted", "True", "Accepted", "")
        wrong = [
            backend for rule in rules for backend in rule.backends if not valid(snapshot, backend, pools=dialect.pools)
        ]
        if wrong:
            message = f"{wrong[0].kind} {wrong[0].namespace}/{wrong[0].name} not found"
            resolved = _condition(before, "ResolvedRefs", "False", "BackendNotFound", message)
        else:
            resolved = _condition(before, "ResolvedRefs", "True", "ResolvedRefs", "")
    return {"controllerName": dialect.controller, "parentRef": dict(ref), "conditions": [accepted, resolved]}


def _condition(
    current: Sequence[Mapping[str, Any]],
    kind: str,
    status: Literal["True", "False"],
    reason: str,
    message: str,
    **extra: object,
) -> Status:
    before = next((item for item in current if item["type"] == kind and item["status"] == status), None)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = before["lastTransitionTime"] if before and before.get("lastTransitionTime") else now
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        **extra,
    }


def _timeless(value: object) -> object:
    """A status without its times, which alone are no reason to write it."""
    if isinstance(value, Mapping):
        return {name: _timeless(item) for name, item in value.items() if name != "lastTransitionTime"}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    return value
