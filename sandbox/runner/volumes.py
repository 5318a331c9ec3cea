"""Volumes of a pod as directories: what a kubelet writes into them, with its layout (`..data` links) and modes."""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lightkube.models.core_v1 import (
    ConfigMap,
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    ProjectedVolumeSource,
    Secret,
    ServiceAccountTokenProjection,
    Volume,
)

from sandbox.runner.environment import Addresses, ConfigError, field_value

# The API server fills these in; the constants are its defaults.
_DEFAULT_MODE = 0o644
_DEFAULT_TOKEN_SECONDS = 3600


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int


Payload = Mapping[str, File]


class VolumeError(Exception):
    """Why a volume cannot be mounted; the text is what a kubelet's FailedMount event says after the volume's name."""


class Source(Protocol):
    """Where the content comes from. None: there is no such object."""

    async def config_map(self, name: str) -> ConfigMap | None: ...
    async def secret(self, name: str) -> Secret | None: ...
    async def token(self, audience: str | None, seconds: int) -> str: ...


async def materialise(pod: Pod, volume: Volume, path: Path, source: Source, addresses: Addresses) -> None:
    """Make a volume's directory, or bring it up to date. VolumeError."""
    if volume.emptyDir:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return
    payload = await _payload(pod, volume, source, addresses)
    write(path, payload)


def in_memory(pod: Pod, volume: Volume) -> bool:
    """Is this memory of a single container, which goes with it? What several containers share is a directory."""
    assert pod.spec is not None
    if volume.emptyDir is None or volume.emptyDir.medium != "Memory":
        return False
    containers = (*(pod.spec.initContainers or []), *pod.spec.containers)
    mounts = [mount for item in containers for mount in item.volumeMounts or [] if mount.name == volume.name]
    return len(mounts) == 1 and not mounts[0].subPath


def read_only(volume: Volume) -> bool:
    """Kubernetes mounts everything but emptyDir read-only."""
    return volume.emptyDir is None


def refreshes(pod: Pod) -> bool:
    """Has the pod volumes whose content can change?"""
    assert pod.spec is not None
    return any(volume.emptyDir is None for volume in pod.spec.volumes or [])


async def _payload(pod: Pod, volume: Volume, source: Source, addresses: Addresses) -> Payload:
    if volume.configMap:
        name, mode = volume.configMap.name or "", _mode(volume.configMap.defaultMode)
        found = await source.config_map(name)
        return _config_map(found, name, volume.configMap.items, mode, optional=bool(volume.configMap.optional))
    if volume.secret:
        name, mode = volume.secret.secretName or "", _mode(volume.secret.defaultMode)
        secret = await source.secret(name)
        return _secret(secret, name, volume.secret.items, mode, optional=bool(volume.secret.optional))
    if volume.projected:
        return await _projected(pod, volume.projected, source, addresses)
    if volume.downwardAPI:
        return _downward(pod, volume.downwardAPI.items or [], _mode(volume.downwardAPI.defaultMode), addresses)
    kind = next((key for key in volume.to_dict() if key != "name"), "this type")
    raise VolumeError(f"volumes of {kind} are not supported by the sandbox's pod runner")


async def _projected(pod: Pod, projected: ProjectedVolumeSource, source: Source, addresses: Addresses) -> Payload:
    mode = _mode(projected.defaultMode)
    payload: dict[str, File] = {}
    for item in projected.sources or []:
        if item.serviceAccountToken:
            token = item.serviceAccountToken
            text = await source.token(token.audience or None, token_seconds(token))
            payload[token.path] = File(text.encode(), mode)
        elif item.configMap:
            name, optional = item.configMap.name or "", bool(item.configMap.optional)
            found = await source.config_map(name)
            payload |= _config_map(found, name, item.configMap.items, mode, optional=optional)
        elif item.secret:
            name, optional = item.secret.name or "", bool(item.secret.optional)
            payload |= _secret(await source.secret(name), name, item.secret.items, mode, optional=optional)
        elif item.downwardAPI:
            payload |= _downward(pod, item.downwardAPI.items or [], mode, addresses)
        else:
            raise VolumeError("a projected source of this kind is not supported by the sandbox's pod runner")
    return payload


def token_seconds(projection: ServiceAccountTokenProjection) -> int:
    return projection.expirationSeconds or _DEFAULT_TOKEN_SECONDS


def _config_map(
    found: ConfigMap | None, name: str, items: Iterable[KeyToPath] | None, mode: int, *, optional: bool
) -> Payload:
    if found is None:
        return _absent(f'configmap "{name}" not found', optional=optional)
    data = {key: text.encode() for key, text in (found.data or {}).items()}
    data |= {key: base64.b64decode(text) for key, text in (found.binaryData or {}).items()}
    return _selected(data, items, mode, "configmap references non-existent config key: {}", optional=optional)


def _secret(
    found: Secret | None, name: str, items: Iterable[KeyToPath] | None, mode: int, *, optional: bool
) -> Payload:
    if found is None:
        return _absent(f'secret "{name}" not found', optional=optional)
    data = {key: base64.b64decode(text) for key, text in (found.data or {}).items()}
    return _selected(data, items, mode, "references non-existent secret key: {}", optional=optional)


def _absent(why: str, *, optional: bool) -> Payload:
    if not optional:
        raise VolumeError(why)
    return {}


def _selected(
    data: Mapping[str, bytes], items: Iterable[KeyToPath] | None, mode: int, missing: str, *, optional: bool
) -> Payload:
    if not items:
        return {key: File(content, mode) for key, content in data.items()}
    payload = {}
    for item in items:
        if item.key in data:
            payload[item.path] = File(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise VolumeError(missing.format(item.key))
    return payload


def _downward(pod: Pod, items: Iterable[DownwardAPIVolumeFile], mode: int, addresses: Addresses) -> Payload:
    payload = {}
    for item in items:
        if item.fieldRef is None:
            raise VolumeError("resourceFieldRef is not supported by the sandbox's pod runner")
        try:
            text = field_value(pod, item.fieldRef.fieldPath, addresses)
        except ConfigError as error:
            raise VolumeError(str(error)) from error
        payload[item.path] = File(text.encode(), mode if item.mode is None else item.mode)
    return payload


def _mode(mode: int | None) -> int:
    return _DEFAULT_MODE if mode is None else mode


def write(folder: Path, payload: Payload) -> bool:
    """Replace the content of a volume at once, as a kubelet does, through the link `..data`. False: nothing changed."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "..data"
    if data.is_dir() and _read(data) == {path: file.content for path, file in payload.items()}:
        return False
    version = folder / f"..{uuid.uuid4().hex}"
    version.mkdir()
    for path, file in payload.items():
        target = version / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    old = data.resolve() if data.is_symlink() else None
    _link(data, version.name)
    tops = {Path(path).parts[0] for path in payload}
    for top in tops:
        _link(folder / top, f"..data/{top}")
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()
    if old:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _link(path: Path, target: str) -> None:
    if path.is_symlink() and os.readlink(path) == target:  # noqa: PTH115 - compared as text
        return
    new = path.with_name(f"..link-{uuid.uuid4().hex}")
    new.symlink_to(target)
    new.replace(path)
