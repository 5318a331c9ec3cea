"""One pod on its node: admitted, mounted, run, reported, ended, as a kubelet does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightkube.models.core_v1 import Container, Volume
from lightkube.resources.core_v1 import Pod

from sandbox import images, nodes
from sandbox.layout import Layout
from sandbox.runner import volumes
from sandbox.runner.addresses import AddressPool
from sandbox.runner.api import Api, Unavailable, retried
from sandbox.runner.container import ContainerLife
from sandbox.runner.content import PodContent
from sandbox.runner.environment import Addresses
from sandbox.runner.events import Kind, Recorder
from sandbox.runner.process import Spec
from sandbox.runner.reporter import Reporter
from sandbox.runner.states import ContainerState, PodState, Terminated, is_sidecar, restored
from sandbox.runner.status import pod_status
from sandbox.runner.timing import Timing
from sandbox.runner.view import PodView
from sandbox.runner.volumes import VolumeError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shared:
    """What the pods of one cluster share."""

    layout: Layout
    api: Api
    recorder: Recorder
    addresses: AddressPool
    timing: Timing


class PodWorker:
    """Owns one pod from the moment it has a node until it is gone."""

    def __init__(self, pod: Pod, shared: Shared) -> None:
        assert pod.metadata is not None and pod.spec is not None
        self.pod = pod
        self.pod_ip = ""
        self.timing = shared.timing
        self._shared, self._spec = shared, pod.spec
        self._content = PodContent(shared.api, pod)
        self._view = PodView(shared.layout, pod)
        self._state = PodState()
        known = _known_states(pod)
        self._lives = {
            item.name: ContainerLife(item, self, known.get(item.name, ContainerState()))
            for item in (*(pod.spec.initContainers or []), *pod.spec.containers)
        }
        self._reporter = Reporter(shared.api, pod.status.to_dict() if pod.status else {}, self._status)
        self._ending = asyncio.Event()
        self._gone = False

    # --- what the sync loop says ---

    def update(self, pod: Pod) -> None:
        """The pod changed in the API: only its metadata, conditions of others and its deletion matter."""
        self.pod = pod
        if pod.metadata and pod.metadata.deletionTimestamp:
            self._ending.set()

    def gone(self) -> None:
        """The pod is no longer in the API."""
        self._gone = True
        self._ending.set()
        for life in self._lives.values():
            life.hurry()

    async def shut_down(self) -> None:
        """The runner stops: end the containers, leave the pod's status alone."""
        await self._stop_all(self.timing.shutdown_grace)
        self._view.remove_volumes()

    # --- its life ---

    async def run(self) -> None:
        """Until the pod is gone from the API. A defect ends its containers: nobody would look after them."""
        self.update(self.pod)
        try:
            async with asyncio.TaskGroup() as group:
                reporter = group.create_task(self._reporter.run(self.timing.retry))
                if not self._ending.is_set() and not _terminal(self.pod):
                    await self._until_ending()
                await self._ending.wait()
                await self._end()
                reporter.cancel()
        except ExceptionGroup:
            await self.shut_down()
            raise
        finally:
            self._release()

    async def _until_ending(self) -> None:
        life = asyncio.create_task(self._live())
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({life, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            if not life.done():
                life.cancel()
                await asyncio.gather(life, return_exceptions=True)
        if not life.cancelled():
            life.result()

    async def _live(self) -> None:
        try:
            async with asyncio.timeout(self._spec.activeDeadlineSeconds):
                await self._run_containers()
        except TimeoutError:
            why = "Pod was active on the node longer than the specified deadline"
            self.record("Normal", "DeadlineExceeded", why)
            self._change(failure=("DeadlineExceeded", why))
        await self._stop_all(self._grace())
        self._change(ended=True)
        self._release()
        self._view.remove_volumes()

    async def _run_containers(self) -> None:
        await self._admit()
        await self._mount()
        background: list[asyncio.Task[None]] = []
        if volumes.refreshes(self.pod):
            background.append(asyncio.create_task(self._refresh()))
        try:
            for item in self._spec.initContainers or []:
                life = self._lives[item.name]
                if is_sidecar(item):
                    background.append(asyncio.create_task(life.run()))
                    await self._started(life)
                    continue
                await life.run()
                if isinstance(life.state.state, Terminated) and life.state.state.exit_code != 0:
                    return
            async with asyncio.TaskGroup() as group:
                for item in self._spec.containers:
                    group.create_task(self._lives[item.name].run())
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    async def _started(self, life: ContainerLife) -> None:
        """A sidecar's start is what the next container waits for; rare enough to be asked for."""
        while not life.state.started:
            await asyncio.sleep(self.timing.retry / 10)

    async def _admit(self) -> None:
        """Address and start time, where its logs are; then wait for the resource claims."""
        host_ip = await retried(lambda: self._shared.api.host_ip(self._spec.nodeName or ""), self.timing.retry)
        status = self.pod.status
        wanted = status.podIP if status else None
        self.pod_ip = host_ip if self._spec.hostNetwork else self._shared.addresses.take(wanted)
        start = status.startTime if status and status.startTime else datetime.now(UTC)
        self._change(host_ip=host_ip, start_time=start)
        await retried(self._serve_logs, self.timing.retry)
        while why := await retried(lambda: self._content.unready_claim(self.pod), self.timing.retry):
            self.record("Warning", "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {why}")
            await asyncio.sleep(self.timing.retry)

    async def _serve_logs(self) -> None:
        metadata = self.pod.metadata
        assert metadata is not None and metadata.name and metadata.namespace and metadata.uid
        files = self._view.log_files(life.container for life in self._lives.values())
        await self._shared.api.apply_logs(nodes.logs_manifest(metadata.namespace, metadata.name, metadata.uid, files))

    async def _mount(self) -> None:
        """Make the volumes; wait for what they need. No container starts before all are there."""
        for volume in self._spec.volumes or []:
            while why := await self._materialise(volume):
                self.record("Warning", "FailedMount", f'MountVolume.SetUp failed for volume "{volume.name}" : {why}')
                await asyncio.sleep(self.timing.retry)
        containers = [life.container for life in self._lives.values()]
        self._view.prepare(self.pod_ip, {item.name: (item, self.image(item.image or "")) for item in containers})
        self._change(sandbox_ready=True)

    async def _materialise(self, volume: Volume) -> str:
        """Make a volume or bring it up to date; why that failed, "" when it did not."""
        try:
            await volumes.materialise(self.pod, volume, self._view.volume(volume), self._content, self._addresses)
        except (VolumeError, *Unavailable) as error:
            return str(error) or repr(error)
        return ""

    async def _refresh(self) -> None:
        """Bring changed ConfigMaps and Secrets, and new tokens, into the mounts; what cannot be had stays as it was."""
        while True:
            await asyncio.sleep(self.timing.volume_refresh)
            for volume in self._spec.volumes or []:
                if volume.emptyDir is None and (why := await self._materialise(volume)):
                    log.info("%s: volume %s stays as it is: %s", self._view.folder.name, volume.name, why)

    # --- its end ---

    async def _end(self) -> None:
        """End what runs, say so, and remove the pod from the API: only then may another one take its place."""
        await self._stop_all(0 if self._gone else self._grace())
        self._change(ended=True)
        if not self._gone:
            await self._reporter.flush()
            await retried(lambda: self._shared.api.delete(self.pod), self.timing.retry)
        self._shared.recorder.forget(self.pod)
        await asyncio.to_thread(self._view.remove)

    async def _stop_all(self, grace: float) -> None:
        await asyncio.gather(*(life.stop(grace) for life in self._lives.values()))

    def _grace(self) -> float:
        metadata = self.pod.metadata
        seconds = metadata.deletionGracePeriodSeconds if metadata else None
        if seconds is None:
            seconds = self._spec.terminationGracePeriodSeconds
        return 30 if seconds is None else seconds

    def _release(self) -> None:
        if self.pod_ip and not self._spec.hostNetwork:
            self._shared.addresses.release(self.pod_ip)
            self.pod_ip = ""

    # --- its status ---

    def _change(self, **changes: Any) -> None:  # noqa: ANN401 - fields of PodState
        self._state = replace(self._state, **changes)
        self.changed()

    def changed(self) -> None:
        self._reporter.changed()

    def _status(self, written: Mapping[str, Any]) -> tuple[Pod, dict[str, Any]]:
        states = {name: life.state for name, life in self._lives.items()}
        # The status keeps the address of a pod that has ended and given it back.
        state = replace(self._state, containers=states, pod_ip=self.pod_ip or written.get("podIP", ""))
        return self.pod, pod_status(self.pod, state, written, datetime.now(UTC))

    def record(self, kind: Kind, reason: str, message: str, container: str | None = None) -> None:
        self._shared.recorder.record(self.pod, kind, reason, message, container)

    # --- what its containers ask for ---

    @property
    def _addresses(self) -> Addresses:
        return Addresses(self.pod_ip, self._state.host_ip)

    def folder(self, item: Container) -> Path:
        return self._view.container(item)

    def image(self, reference: str) -> images.Image | None:
        return images.find(reference, self._shared.layout, self.pod_ip)

    async def environment(self, item: Container, image: images.Image) -> dict[str, str]:
        declared = await retried(lambda: self._content.environment(self.pod, item, self._addresses), self.timing.retry)
        return {**image.env, "HOSTNAME": self._view.hostname, **declared}

    def spec(self, item: Container, argv: Sequence[str], env: Mapping[str, str], image: images.Image) -> Spec:
        return self._view.spec(item, argv, env, image)


def _known_states(pod: Pod) -> dict[str, ContainerState]:
    status = pod.status
    if status is None:
        return {}
    return restored([*(status.initContainerStatuses or []), *(status.containerStatuses or [])])


def _terminal(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")
