"""What each container of a pod gets from this machine: its mounts, the hosts file, its image's programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lightkube.models.core_v1 import Container, Volume
from lightkube.resources.core_v1 import Pod

from sandbox import images
from sandbox.layout import Layout
from sandbox.processes import MARK_HOME, MARK_NAME
from sandbox.runner import filesystem, volumes
from sandbox.runner.process import Spec

# Under this name the supervisor knows the runner; a container's processes carry it too, so that they count as its own.
NAME = "runner"
_HOSTNAME_MOST = 63  # the kernel's limit


class PodView:
    """The directories of one pod below the sandbox's state, and what its containers see of them."""

    def __init__(self, layout: Layout, pod: Pod) -> None:
        assert pod.metadata is not None and pod.spec is not None
        metadata, self._spec, self._pod = pod.metadata, pod.spec, pod
        self._layout = layout
        name = metadata.name or ""
        self.folder = layout.pod(metadata.namespace or "default", name, metadata.uid or "")
        self.hostname = (self._spec.hostname or name)[:_HOSTNAME_MOST].rstrip("-.")

    def container(self, item: Container) -> Path:
        """Directory of one container: its logs, termination message and programs."""
        return self.folder / item.name

    def termination_file(self, item: Container) -> Path:
        return self.container(item) / "termination-log"

    def log_files(self, containers: Iterable[Container]) -> list[tuple[str, Path, Path]]:
        """Container, log of its running or last run, log of the one before."""
        return [
            (item.name, self.container(item) / "current.log", self.container(item) / "previous.log")
            for item in containers
        ]

    def prepare(self, pod_ip: str, containers: Mapping[str, tuple[Container, images.Image | None]]) -> None:
        """Write the hosts file and the programs of the containers' images."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = ["# Kubernetes-managed hosts file.", "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost"]
        self._hosts.write_text("\n".join([*lines, f"{pod_ip}\t{self.hostname}", ""]))
        for item, image in containers.values():
            folder = self._programs(item)
            folder.mkdir(parents=True, exist_ok=True)
            for name, script in (image.programs if image else {}).items():
                (folder / name).write_text(script)
                (folder / name).chmod(0o755)

    def spec(self, item: Container, argv: Sequence[str], env: Mapping[str, str], image: images.Image) -> Spec:
        visible = (self._layout.repository, self._layout.cache, Path(sys.prefix), Path(sys.base_prefix))
        return Spec(
            argv=argv,
            env=env,
            options=filesystem.arguments(self._mounts(item), visible, (self._layout.home,)),
            marks={MARK_HOME: str(self._layout.home), MARK_NAME: NAME},
            working_dir=item.workingDir or image.working_dir,
            hostname=self.hostname,
        )

    def volume(self, volume: Volume) -> Path:
        return self.folder / "volumes" / volume.name

    def remove_volumes(self) -> None:
        shutil.rmtree(self.folder / "volumes", ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _hosts(self) -> Path:
        return self.folder / "hosts"

    def _programs(self, item: Container) -> Path:
        return self.container(item) / "programs"

    def _mounts(self, item: Container) -> list[filesystem.Mount]:
        message = Path(item.terminationMessagePath or "/dev/termination-log")
        mounts = [
            filesystem.Mount(self._hosts, Path("/etc/hosts")),
            filesystem.Mount(self.termination_file(item), message, read_only=False),
            filesystem.Mount(self._programs(item), images.PROGRAMS),
        ]
        known = {volume.name: volume for volume in self._spec.volumes or []}
        for mount in item.volumeMounts or []:
            volume = known[mount.name]
            source: Path | None = self.volume(volume)
            if volumes.in_memory(self._pod, volume):
                source = None
            elif mount.subPath:
                source = _sub_path(self.volume(volume), mount.subPath)
            read_only = bool(mount.readOnly) or volumes.read_only(volume)
            mounts.append(filesystem.Mount(source, Path(mount.mountPath), read_only))
        return mounts


def _sub_path(source: Path, sub_path: str) -> Path:
    """A file or directory within a volume; one that an emptyDir lacks is made, as a directory."""
    path = source / sub_path
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
    return path.resolve()
