"""The sync loop: keeps one worker for each pod that has a node, on both clusters."""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass, field
from typing import Any

from lightkube import ApiError
from lightkube.resources.core_v1 import Pod

from sandbox.layout import CLUSTERS, Layout
from sandbox.runner.addresses import AddressPool
from sandbox.runner.api import Api, Unavailable
from sandbox.runner.events import Recorder
from sandbox.runner.pod import PodWorker, Shared
from sandbox.runner.timing import Timing

log = logging.getLogger(__name__)

# Between a lost watch and the next list (seconds).
_RELIST_SECONDS = 1
# A watch should need no other list; this one finds what a defect, or a connection that died quietly, has missed.
_WATCH_SECONDS = 300


@dataclass
class Node:
    """All nodes of one cluster."""

    shared: Shared
    workers: dict[str, tuple[PodWorker, asyncio.Task[None]]] = field(default_factory=dict)
    # Set when the first list was taken in: from then on a directory without a worker belongs to a pod that is gone.
    listed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """List, watch, and list again when the watch ends or the server is away."""
        while True:
            try:
                pods, version = await self.shared.api.pods()
                self._replace(pods)
                self.listed.set()
                async with asyncio.timeout(_WATCH_SECONDS):
                    async for operation, pod in self.shared.api.watch_pods(version):
                        self._apply(operation, pod)
            except TimeoutError:
                continue
            except ApiError as error:
                log.info("%s: watch ended: %s", self.shared.api.cluster.name, error)
            except Unavailable as error:
                log.warning("%s: API server is away: %r", self.shared.api.cluster.name, error)
            await asyncio.sleep(_RELIST_SECONDS)

    def _replace(self, pods: list[Pod]) -> None:
        present = {_uid(pod) for pod in pods}
        for uid in set(self.workers) - present:
            self.workers[uid][0].gone()
        for pod in pods:
            self._apply("MODIFIED", pod)

    def _apply(self, operation: str, pod: Pod) -> None:
        uid = _uid(pod)
        known = self.workers.get(uid)
        if operation == "DELETED":
            if known:
                known[0].gone()
        elif known:
            known[0].update(pod)
        else:
            worker = PodWorker(pod, self.shared)
            task = asyncio.create_task(worker.run())
            self.workers[uid] = (worker, task)
            task.add_done_callback(lambda done: self._done(uid, done))

    def _done(self, uid: str, task: asyncio.Task[None]) -> None:
        self.workers.pop(uid, None)
        if not task.cancelled() and task.exception():
            # The next list starts it anew; a defect of one pod must not end the others.
            log.error("pod %s: worker failed", uid, exc_info=task.exception())

    async def shut_down(self) -> None:
        workers = list(self.workers.values())
        for _, task in workers:
            task.cancel()
        await asyncio.gather(*(task for _, task in workers), return_exceptions=True)
        await asyncio.gather(*(worker.shut_down() for worker, _ in workers))


async def run(layout: Layout, timing: Timing, stop: asyncio.Event) -> None:
    """Play the kubelet until stop is set; then end every container."""
    addresses = AddressPool(layout.port_base)
    clusters = []
    for name in CLUSTERS:
        api = Api(layout.cluster(name))
        clusters.append(Node(Shared(layout, api, Recorder(api), addresses, timing)))
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(node.run()) for node in clusters]
    tasks += [asyncio.create_task(node.shared.recorder.run()) for node in clusters]
    tasks.append(asyncio.create_task(_sweep(layout, clusters)))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({*tasks[:-1], stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks[:-1]:
            if task.done():
                task.result()
    finally:
        for task in (*tasks, stopped):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(node.shut_down() for node in clusters))
        await asyncio.gather(*(node.shared.api.close() for node in clusters))


async def _sweep(layout: Layout, clusters: list[Node]) -> None:
    """Once both clusters were listed: remove what pods left that went while no runner was there."""
    for node in clusters:
        await node.listed.wait()
    living = {uid for node in clusters for uid in node.workers}
    for folder in layout.pods.iterdir():
        if folder.name.rpartition("_")[2] not in living:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _uid(pod: Pod) -> str:
    assert pod.metadata is not None
    return pod.metadata.uid or ""
