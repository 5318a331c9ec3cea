"""One pod on its node: admitted, mounted, run, reported, ended, as a kubelet does it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightkube import ApiError
from lightkube.models.core_v1 import ConfigMap, Container, Secret
from lightkube.resources.core_v1 import Pod

from sandbox import images, nodes
from sandbox.layout import Layout
from sandbox.processes import MARK_HOME, MARK_NAME
from sandbox.runner import filesystem, volumes
from sandbox.runner.addresses import AddressPool
from sandbox.runner.api import Api, Unavailable, retried
from sandbox.runner.container import ContainerLife
from sandbox.runner.environment import Addresses, Objects, environment, references, service_variables
from sandbox.runner.events import Kind, Recorder
from sandbox.runner.process import Spec
from sandbox.runner.status import (
    ContainerState,
    PodState,
    Terminated,
    is_sidecar,
    pod_status,
    restored,
)
from sandbox.runner.timing import Timing
from sandbox.runner.volumes import PodVolumes, VolumeError

log = logging.getLogger(__name__)

NAME = "runner"
# A token is renewed when this part of its life is over (kubelet's rule).
_TOKEN_USED = 0.8


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
        self._shared = shared
        self._metadata, self._spec = pod.metadata, pod.spec
        self._namespace = pod.metadata.namespace or "default"
        self._name = pod.metadata.name or ""
        self._uid = pod.metadata.uid or ""
        self._folder = shared.layout.pod(self._namespace, self._name, self._uid)
        memory = volumes.SHARED_MEMORY / f"{memory_folder(shared.layout)}" / self._uid
        self._volumes = PodVolumes(self._folder / "volumes", memory)
        self._state = PodState()
        known = _known_states(pod)
        self._lives = {
            item.name: ContainerLife(item, self, known.get(item.name, ContainerState()))
            for item in (*(pod.spec.initContainers or []), *pod.spec.containers)
        }
        self._written: Mapping[str, Any] = pod.status.to_dict() if pod.status else {}
        self._dirty, self._clean = asyncio.Event(), asyncio.Event()
        self._ending = asyncio.Event()
        self._gone = False
        self._tokens: dict[tuple[str | None, int], tuple[str, float]] = {}

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

    async def shut_down(self) -> None:
        """The runner stops: end the containers, leave the pod's status alone."""
        await asyncio.gather(*(life.stop(self.timing.shutdown_grace) for life in self._lives.values()))
        self._volumes.remove()

    # --- its life ---

    async def run(self) -> None:
        """Until the pod is gone from the API."""
        self.update(self.pod)
        reporter = asyncio.create_task(self._report())
        try:
            if not self._ending.is_set() and not _terminal(self.pod):
                await self._until_ending()
            await self._ending.wait()
            await self._end(reporter)
        finally:
            reporter.cancel()
            self._release()

    async def _until_ending(self) -> None:
        life = asyncio.create_task(self._live())
        ending = asyncio.create_task(self._ending.wait())
        done, waiting = await asyncio.wait({life, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for task in done:
            task.result()

    async def _live(self) -> None:
        deadline = self._spec.activeDeadlineSeconds
        try:
            async with asyncio.timeout(deadline):
                await self._run_containers()
        except TimeoutError:
            why = "Pod was active on the node longer than the specified deadline"
            self.record("Normal", "DeadlineExceeded", why)
            await self._stop_all(self._grace())
            self._change(failure=("DeadlineExceeded", why))
        self._change(ended=True)
        self._release()
        self._volumes.remove()

    async def _run_containers(self) -> None:
        await self._admit()
        await self._mount()
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(self._refresh())] if volumes.refreshes(self.pod) else []
            for item in self._spec.initContainers or []:
                life = self._lives[item.name]
                if is_sidecar(item):
                    background.append(group.create_task(life.run()))
                    await self._started(life)
                    continue
                await life.run()
                if isinstance(life.state.state, Terminated) and life.state.state.exit_code != 0:
                    break
            else:
                await asyncio.gather(*(self._lives[item.name].run() for item in self._spec.containers))
            for task in background:
                task.cancel()
        await self._stop_all(self._grace())

    async def _started(self, life: ContainerLife) -> None:
        """A sidecar's start is what the next container waits for; rare enough to be asked for."""
        while not life.state.started:
            await asyncio.sleep(self.timing.retry / 10)

    async def _admit(self) -> None:
        """Address and start time; then wait for the resource claims, which the scheduler has allocated and reserved."""
        host_ip = await retried(lambda: self._shared.api.host_ip(self._spec.nodeName or ""), self.timing.retry)
        status = self.pod.status
        wanted = status.podIP if status else None
        self.pod_ip = host_ip if self._spec.hostNetwork else self._shared.addresses.take(wanted)
        start = status.startTime if status and status.startTime else datetime.now(UTC)
        self._change(host_ip=host_ip, start_time=start)
        await retried(self._serve_logs, self.timing.retry)
        while why := await retried(self._unready_claim, self.timing.retry):
            self.record("Warning", "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {why}")
            await asyncio.sleep(self.timing.retry)

    async def _unready_claim(self) -> str:
        """Why a resource claim does not allow the pod to run; "" when all do."""
        status = self.pod.status
        generated = {
            item.name: item.resourceClaimName for item in (status.resourceClaimStatuses if status else None) or []
        }
        for item in self._spec.resourceClaims or []:
            name = item.resourceClaimName or generated.get(item.name)
            if not name:
                if item.name in generated:
                    continue  # no claim was needed
                return f"pod {self._namespace}/{self._name}: claim {item.name} has no ResourceClaim yet"
            claim = await self._shared.api.claim(self._namespace, name)
            if claim is None:
                return f'resourceclaims.resource.k8s.io "{name}" not found'
            if claim.status is None or claim.status.allocation is None:
                return f"ResourceClaim {name}: not allocated"
            if self._uid not in {consumer.uid for consumer in claim.status.reservedFor or []}:
                return f"ResourceClaim {name}: not reserved for pod {self._name}"
        return ""

    async def _serve_logs(self) -> None:
        files = [
            (name, folder / "current.log", folder / "previous.log")
            for name, life in self._lives.items()
            if (folder := self.folder(life.container))
        ]
        await self._shared.api.apply_logs(nodes.logs_manifest(self._namespace, self._name, self._uid, files))

    async def _mount(self) -> None:
        """Make the volumes; wait for what they need. No container starts before all are there."""
        for volume in self._spec.volumes or []:
            while True:
                try:
                    await volumes.materialise(self.pod, volume, self._volumes, self, self._addresses)
                    break
                except VolumeError as error:
                    why = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                    self.record("Warning", "FailedMount", why)
                except Unavailable as error:
                    log.info("%s/%s: volume %s: %s", self._namespace, self._name, volume.name, error)
                await asyncio.sleep(self.timing.retry)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "hosts").write_text(_hosts(self.pod_ip, self._hostname))
        self._write_programs()
        self._change(sandbox_ready=True)

    async def _refresh(self) -> None:
        """Bring changed ConfigMaps and Secrets, and new tokens, into the mounts."""
        while True:
            await asyncio.sleep(self.timing.volume_refresh)
            for volume in self._spec.volumes or []:
                if volume.emptyDir is None:
                    try:
                        await volumes.materialise(self.pod, volume, self._volumes, self, self._addresses)
                    except (VolumeError, *Unavailable) as error:
                        # What is mounted stays as it was, as with a kubelet.
                        log.info("%s/%s: volume %s: %s", self._namespace, self._name, volume.name, error)

    # --- its end ---

    async def _end(self, reporter: asyncio.Task[None]) -> None:
        """End what runs, say so, and remove the pod from the API: only then may another one take its place."""
        await self._stop_all(1 if self._gone else self._grace())
        self._change(ended=True)
        if not self._gone:
            self._clean.clear()
            self._dirty.set()
            await asyncio.wait({reporter, asyncio.create_task(self._clean.wait())}, return_when=asyncio.FIRST_COMPLETED)
            await retried(lambda: self._shared.api.delete(self.pod), self.timing.retry)
        self._shared.recorder.forget(self.pod)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

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

    # --- status ---

    def _change(self, **changes: Any) -> None:  # noqa: ANN401 - fields of PodState
        self._state = replace(self._state, **changes)
        self.changed()

    def changed(self) -> None:
        self._clean.clear()
        self._dirty.set()

    async def _report(self) -> None:
        """Write the status whenever it changed; several changes become one write. Ends when the pod is gone."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            states = {name: life.state for name, life in self._lives.items()}
            state = replace(self._state, containers=states, pod_ip=self.pod_ip or self._written.get("podIP", ""))
            status = pod_status(self.pod, state, self._written, datetime.now(UTC))
            if status != self._written:
                try:
                    if not await self._shared.api.patch_status(self.pod, status):
                        return
                except ApiError as error:
                    log.warning("%s/%s: status not taken: %s", self._namespace, self._name, error)
                    await self._again()
                    continue
                except Unavailable:
                    await self._again()
                    continue
                self._written = status
            if not self._dirty.is_set():
                self._clean.set()

    async def _again(self) -> None:
        await asyncio.sleep(self.timing.retry)
        self._dirty.set()

    def record(self, kind: Kind, reason: str, message: str, container: str | None = None) -> None:
        self._shared.recorder.record(self.pod, kind, reason, message, container)

    # --- what its containers and volumes ask for ---

    @property
    def _addresses(self) -> Addresses:
        return Addresses(self.pod_ip, self._state.host_ip)

    @property
    def _hostname(self) -> str:
        # The kernel's limit.
        return (self._spec.hostname or self._name)[:63].rstrip("-.")

    def folder(self, item: Container) -> Path:
        return self._folder / item.name

    def image(self, reference: str) -> images.Image | None:
        return images.find(reference, self._shared.layout, self.pod_ip)

    async def environment(self, item: Container, image: images.Image) -> dict[str, str]:
        return await retried(lambda: self._environment(item, image), self.timing.retry)

    async def _environment(self, item: Container, image: images.Image) -> dict[str, str]:
        config_maps, secrets = references(item)
        objects = Objects(
            {name: await self.config_map(name) for name in sorted(config_maps)},
            {name: await self.secret(name) for name in sorted(secrets)},
        )
        links = self._spec.enableServiceLinks is not False
        services = service_variables(await self._shared.api.services(self._namespace, links=links))
        declared = environment(self.pod, item, objects, services, self._addresses)
        return {**image.env, "HOSTNAME": self._hostname, **declared}

    async def config_map(self, name: str) -> ConfigMap | None:
        return await self._shared.api.config_map(self._namespace, name)

    async def secret(self, name: str) -> Secret | None:
        return await self._shared.api.secret(self._namespace, name)

    async def token(self, audience: str | None, seconds: int) -> str:
        text, renew = self._tokens.get((audience, seconds), ("", 0.0))
        if time.time() >= renew:
            text = await self._shared.api.token(self.pod, audience, seconds)
            self._tokens[audience, seconds] = (text, time.time() + _TOKEN_USED * seconds)
        return text

    def spec(self, item: Container, argv: Sequence[str], env: Mapping[str, str], image: images.Image) -> Spec:
        layout = self._shared.layout
        return Spec(
            argv=argv,
            env=env,
            options=filesystem.arguments(self._mounts(item), _visible(layout), (layout.home,)),
            # Whoever looks for processes of this sandbox finds them, also when this program was killed.
            marks={MARK_HOME: str(layout.home), MARK_NAME: NAME},
            working_dir=item.workingDir or image.working_dir,
            hostname=self._hostname,
        )

    def _mounts(self, item: Container) -> list[filesystem.Mount]:
        life = self._lives[item.name]
        message = Path(item.terminationMessagePath or "/dev/termination-log")
        mounts = [
            filesystem.Mount(self._folder / "hosts", Path("/etc/hosts")),
            filesystem.Mount(life.termination_file, message, read_only=False),
            filesystem.Mount(self.folder(item) / "programs", images.PROGRAMS),
        ]
        known = {volume.name: volume for volume in self._spec.volumes or []}
        for mount in item.volumeMounts or []:
            volume = known[mount.name]
            source = self._volumes.path(volume)
            if mount.subPath:
                source = _sub_path(source, mount.subPath)
            read_only = bool(mount.readOnly) or volumes.read_only(volume)
            mounts.append(filesystem.Mount(source, Path(mount.mountPath), read_only))
        return mounts

    def _write_programs(self) -> None:
        """The programs that the containers' images bring, as scripts."""
        for life in self._lives.values():
            folder = self.folder(life.container) / "programs"
            folder.mkdir(parents=True, exist_ok=True)
            image = self.image(life.container.image or "")
            for name, script in (image.programs if image else {}).items():
                (folder / name).write_text(script)
                (folder / name).chmod(0o755)


def memory_folder(layout: Layout) -> str:
    """Name of this sandbox's directory in shared memory."""
    return f"speculation-sandbox-{layout.port_base}"


def _known_states(pod: Pod) -> dict[str, ContainerState]:
    status = pod.status
    if status is None:
        return {}
    return restored([*(status.initContainerStatuses or []), *(status.containerStatuses or [])])


def _terminal(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def _visible(layout: Layout) -> tuple[Path, ...]:
    """Program, interpreters and cache: needed also where they lie below a directory that containers see fresh."""
    return (layout.repository, layout.cache, Path(sys.prefix), Path(sys.base_prefix))


def _sub_path(source: Path, sub_path: str) -> Path:
    """A file or directory within a volume; one that an emptyDir lacks is made, as a directory."""
    path = source / sub_path
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def _hosts(pod_ip: str, hostname: str) -> str:
    return (
        f"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n{pod_ip}\t{hostname}\n"
    )
