"""Events of a kubelet: written in the background, repeated ones counted up.

While the API server is away they are lost rather than in the way.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from lightkube import ApiError
from lightkube.models.core_v1 import EventSource, ObjectReference, Pod
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Event

from sandbox.runner.api import Unavailable

log = logging.getLogger(__name__)

Kind = Literal["Normal", "Warning"]
# Repetitions of an event within this time (seconds) become one write.
_GATHER_SECONDS = 5
# An event is history, not state: after this many tries the pod's status has to do.
_TRIES = 5


class EventWriter(Protocol):
    async def create_event(self, event: Event) -> None: ...
    async def update_event(self, namespace: str, name: str, change: Mapping[str, Any]) -> bool: ...


@dataclass
class _Series:
    """One event and how often it happened; written: the count that the API server has."""

    event: Event
    count: int = 1
    written: int = 0
    last: datetime | None = None


class Recorder:
    """Records events of one cluster's pods."""

    def __init__(self, api: EventWriter) -> None:
        self._api = api
        self._series: dict[tuple[str, str, str, str], _Series] = {}
        self._queue: asyncio.Queue[_Series] = asyncio.Queue()

    def record(self, pod: Pod, kind: Kind, reason: str, message: str, container: str | None = None) -> None:
        """Note an event of a pod, or of one of its containers (a field path such as `spec.containers{engine}`)."""
        assert pod.metadata is not None
        now = datetime.now(UTC)
        key = (pod.metadata.uid or "", container or "", reason, message)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(
                _event(pod, kind, reason, message, container=container, now=now), last=now
            )
            self._queue.put_nowait(series)
            return
        waiting = series.count > series.written
        series.count, series.last = series.count + 1, now
        if not waiting:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._queue.put_nowait, series)

    def forget(self, pod: Pod) -> None:
        """The pod is gone: its next namesake starts its own events."""
        assert pod.metadata is not None
        for key in [key for key in self._series if key[0] == pod.metadata.uid]:
            del self._series[key]

    async def run(self) -> None:
        while True:
            series = await self._queue.get()
            for _ in range(_TRIES):
                try:
                    await self._write(series)
                    break
                except ApiError as error:
                    # Such as: the namespace is being deleted. A refusal stays a refusal.
                    log.info("event not taken: %s", error)
                    break
                except Unavailable:
                    await asyncio.sleep(1)

    async def _write(self, series: _Series) -> None:
        count, event = series.count, series.event
        assert event.metadata is not None and event.metadata.namespace and event.metadata.name
        if series.written:
            change = {"count": count, "lastTimestamp": _text(series.last)}
            if await self._api.update_event(event.metadata.namespace, event.metadata.name, change):
                series.written = count
                return
        event.count, event.lastTimestamp = count, series.last
        await self._api.create_event(event)
        series.written = count


def _text(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def _event(pod: Pod, kind: Kind, reason: str, message: str, *, container: str | None, now: datetime) -> Event:
    metadata, spec = pod.metadata, pod.spec
    assert metadata is not None and spec is not None
    field_path = None
    if container:
        inits = {item.name for item in spec.initContainers or []}
        field_path = f"spec.{'initContainers' if container in inits else 'containers'}{{{container}}}"
    return Event(
        metadata=ObjectMeta(name=f"{metadata.name}.{uuid.uuid4().hex[:16]}", namespace=metadata.namespace),
        involvedObject=ObjectReference(
            apiVersion="v1",
            kind="Pod",
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resourceVersion=metadata.resourceVersion,
            fieldPath=field_path,
        ),
        type=kind,
        reason=reason,
        # The API server refuses more than 1024 characters.
        message=message[:1024],
        source=EventSource(component="kubelet", host=spec.nodeName),
        reportingComponent="kubelet",
        reportingInstance=spec.nodeName,
        firstTimestamp=now,
        lastTimestamp=now,
        count=1,
    )
