"""Kubernetes events as short clauses for a waiting line or a failure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from components.gates.kube import Kube, Manifest, path


def recent(kube: Kube, namespace: str, objects: Collection[str]) -> list[str]:
    """Warnings and notes about the named objects, oldest first, each once."""
    return told(kube.list(path("v1", "events", namespace=namespace)), objects)


def told(events: Iterable[Manifest], objects: Collection[str]) -> list[str]:
    """`Reason: message (3 times)` of the events about the named objects, oldest first, each text once."""
    mine = [event for event in events if event.get("involvedObject", {}).get("name") in objects]
    texts: dict[str, None] = {}
    for event in sorted(mine, key=when):
        count = event.get("count") or event.get("series", {}).get("count") or 1
        message = " ".join(str(event.get("message", "")).split())
        text = f"{event.get('reason', 'Event')}: {message}"
        texts[text + (f" ({count} times)" if count > 1 else "")] = None
    return list(texts)


def when(event: Manifest) -> str:
    """When it was last seen, RFC 3339 in UTC, which sorts as text; "" when it does not say."""
    series = event.get("series") or {}
    moments = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return str(next((moment for moment in moments if moment), ""))
