"""HTTPRoutes as a table: which rule a path meets, and what the path becomes for a backend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.gateway.dialects import GATEWAY_GROUP
from sandbox.gateway.snapshot import Manifest, Snapshot, key

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(?:(\d{1,5}(?:h|m|s|ms)))+")
_MATCH_FIELDS = {"path"}
_RULE_FIELDS = {"name", "matches", "filters", "backendRefs", "timeouts"}


@dataclass(frozen=True)
class Rewrite:
    """URLRewrite of a path: the matched prefix, or the whole path, is replaced."""

    text: str
    whole: bool = False


@dataclass(frozen=True)
class Backend:
    """One backendRef: kind Service (port: the Service's) or InferencePool, in the route's namespace."""

    kind: str
    namespace: str
    name: str
    port: int | None
    weight: int
    rewrite: Rewrite | None = None


@dataclass(frozen=True)
class Rule:
    """One match of one rule. prefix: without a trailing slash; exact: the path has to be equal.

    seconds: limit for the whole request, None when the rule names none, 0 for no limit.
    """

    route: tuple[str, str]
    prefix: str
    exact: bool
    backends: tuple[Backend, ...]
    seconds: float | None = None

    def meets(self, path: str) -> bool:
        if self.exact:
            return path == self.prefix
        return path == self.prefix or path.startswith(f"{self.prefix}/")

    def rewritten(self, path: str, rewrite: Rewrite | None) -> str:
        """The path that the backend gets."""
        if rewrite is None:
            return path
        if rewrite.whole:
            return rewrite.text
        rest = path[len(self.prefix) :]
        return (rewrite.text.rstrip("/") + rest) or "/"


class Unsupported(ValueError):  # noqa: N818 - it is a condition of the route
    """A route that uses what this stand-in does not play."""


class Table:
    """Rules of all accepted routes, the most specific first."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = sorted(rules, key=lambda rule: (not rule.exact, -len(rule.prefix), rule.route))

    def find(self, path: str) -> Rule | None:
        return next((rule for rule in self._rules if rule.meets(path)), None)


def table(snapshot: Snapshot, controller: str) -> Table:
    """The table of a controller's Gateways."""
    rules: list[Rule] = []
    for route in snapshot.all("HTTPRoute"):
        if any(parent_of(snapshot, route, ref, controller) for ref in parent_refs(route)):
            try:
                rules += rules_of(route)
            except Unsupported:
                continue
    return Table(rules)


def parent_refs(route: Manifest) -> Sequence[Mapping[str, Any]]:
    return route.get("spec", {}).get("parentRefs") or []


def parent_of(snapshot: Snapshot, route: Manifest, ref: Mapping[str, Any], controller: str) -> Manifest | None:
    """The Gateway of this controller that a parentRef names, None when it is another's or absent."""
    if ref.get("group", GATEWAY_GROUP) != GATEWAY_GROUP or ref.get("kind", "Gateway") != "Gateway":
        return None
    namespace, _ = key(route)
    gateway = snapshot.get("Gateway", ref.get("namespace") or namespace, ref["name"])
    if gateway is None:
        return None
    found = snapshot.get("GatewayClass", "", gateway["spec"]["gatewayClassName"])
    return gateway if found and found["spec"]["controllerName"] == controller else None


def rules_of(route: Manifest) -> Iterator[Rule]:
    """The rules of a route. Unsupported says what it uses that is not played."""
    spec = route.get("spec", {})
    if spec.get("hostnames"):
        raise Unsupported("hostnames")
    for rule in spec.get("rules") or []:
        _only(rule, _RULE_FIELDS)
        namespace, _ = key(route)
        common = _rewrite(rule.get("filters"))
        backends = tuple(_backend(ref, namespace, common) for ref in rule.get("backendRefs") or [])
        seconds = _seconds(rule.get("timeouts") or {})
        for match in rule.get("matches") or [{}]:
            _only(match, _MATCH_FIELDS)
            path = match.get("path") or {}
            kind, value = path.get("type", "PathPrefix"), path.get("value", "/")
            if kind not in ("PathPrefix", "Exact"):
                raise Unsupported(f"path match {kind}")
            exact = kind == "Exact"
            yield Rule(key(route), value if exact else value.rstrip("/"), exact, backends, seconds)


def duration(text: str) -> float:
    """A Gateway API duration in seconds ("1m30s", "500ms", "0s"). ValueError for anything else."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)(ms|h|m|s)", text))


def _backend(ref: Mapping[str, Any], namespace: str, common: Rewrite | None) -> Backend:
    _only(ref, {"group", "kind", "name", "namespace", "port", "weight", "filters"})
    if ref.get("namespace", namespace) != namespace:
        raise Unsupported("backendRef to another namespace")
    weight = ref.get("weight", 1)
    kind = ref.get("kind", "Service")
    return Backend(kind, namespace, ref["name"], ref.get("port"), weight, _rewrite(ref.get("filters")) or common)


def _rewrite(filters: Sequence[Mapping[str, Any]] | None) -> Rewrite | None:
    found = None
    for item in filters or []:
        path = item.get("urlRewrite", {}).get("path", {})
        if item.get("type") != "URLRewrite" or item["urlRewrite"].keys() != {"path"}:
            raise Unsupported(f"filter {item.get('type')}")
        if path.get("type") == "ReplacePrefixMatch":
            found = Rewrite(path.get("replacePrefixMatch", ""))
        else:
            found = Rewrite(path.get("replaceFullPath", "/"), whole=True)
    return found


def _seconds(timeouts: Mapping[str, str]) -> float | None:
    _only(timeouts, {"request", "backendRequest"})
    given = [duration(text) for text in timeouts.values()]
    limits = [seconds for seconds in given if seconds]
    if limits:
        return min(limits)
    return 0.0 if given else None


def _only(value: Mapping[str, Any], fields: set[str]) -> None:
    extra = sorted(value.keys() - fields)
    if extra:
        raise Unsupported(extra[0])
