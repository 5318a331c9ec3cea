"""Writes a pod's status whenever it changed: several changes become one write, a server that is away gets it later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from lightkube import ApiError
from lightkube.resources.core_v1 import Pod

from sandbox.runner.api import Api, Unavailable

log = logging.getLogger(__name__)


class Reporter:
    """compute: the pod as it is now and its status, given the one written last."""

    def __init__(
        self, api: Api, written: Mapping[str, Any], compute: Callable[[Mapping[str, Any]], tuple[Pod, dict[str, Any]]]
    ) -> None:
        self._api = api
        self._compute = compute
        self._written = written
        self._dirty, self._clean, self._gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def changed(self) -> None:
        self._clean.clear()
        self._dirty.set()

    async def flush(self) -> None:
        """Until what is true now has been written, or the pod is gone."""
        self.changed()
        waits = [asyncio.create_task(event.wait()) for event in (self._clean, self._gone)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def run(self, retry: float) -> None:
        """Until the pod is gone from the API. retry: seconds between tries."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            pod, status = self._compute(self._written)
            if status != self._written:
                try:
                    if not await self._api.patch_status(pod, status):
                        self._gone.set()
                        return
                    self._written = status
                except Unavailable as error:
                    if isinstance(error, ApiError):
                        log.warning("status of %s not taken: %s", pod.metadata and pod.metadata.name, error)
                    await asyncio.sleep(retry)
                    self._dirty.set()
            if not self._dirty.is_set():
                self._clean.set()
