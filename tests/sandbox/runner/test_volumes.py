import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.core_v1 import ConfigMap, Secret, Volume

from sandbox.runner.environment import Addresses
from sandbox.runner.volumes import File, VolumeError, in_memory, materialise, read_only, refreshes, write
from tests.sandbox.runner.pods import made, pod

CERTIFICATE = base64.b64encode(b"\x00binary").decode()


class Cluster:
    """What a volume may read."""

    async def config_map(self, name: str) -> ConfigMap | None:
        found = {"settings": ConfigMap(data={"a.yaml": "a: 1", "b": ""}, binaryData={"app.pyz": CERTIFICATE})}
        return found.get(name)

    async def secret(self, name: str) -> Secret | None:
        return Secret(data={"token": base64.b64encode(b"hf_x").decode()}) if name == "hf" else None

    async def token(self, audience: str | None, seconds: int) -> str:
        return f"token for {audience} for {seconds} s"


def mounted(folder: Path, volume: dict[str, Any]) -> dict[str, tuple[bytes, int]]:
    item = made(Volume, {"name": "v", **volume})
    asyncio.run(materialise(pod(), item, folder, Cluster(), Addresses("127.20.0.7", "127.0.0.1")))
    return content(folder)


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file that a program sees, with its mode."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith("..")
    } | {
        f"{link.name}/{path.relative_to(link)}": (path.read_bytes(), path.stat().st_mode & 0o777)
        for link in folder.iterdir()
        if link.is_symlink() and link.is_dir() and not link.name.startswith("..")
        for path in link.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        (
            {"configMap": {"name": "settings"}},
            {"a.yaml": (b"a: 1", 0o644), "b": (b"", 0o644), "app.pyz": (b"\x00binary", 0o644)},
        ),
        (
            {"configMap": {"name": "settings", "defaultMode": 0o555, "items": [{"key": "a.yaml", "path": "x/y.yaml"}]}},
            {"x/y.yaml": (b"a: 1", 0o555)},
        ),
        (
            {"secret": {"secretName": "hf", "items": [{"key": "token", "path": "token", "mode": 0o400}]}},
            {"token": (b"hf_x", 0o400)},
        ),
        ({"secret": {"secretName": "none", "optional": True}}, {}),
        ({"emptyDir": {}}, {}),
        (
            {"downwardAPI": {"items": [{"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}}]}},
            {"ip": (b"127.20.0.7", 0o644)},
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                        {"configMap": {"name": "settings", "items": [{"key": "b", "path": "ca.crt"}]}},
                        {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                        {"secret": {"name": "hf"}},
                    ]
                }
            },
            {"token": (b"hf_x", 0o644), "ca.crt": (b"", 0o644), "ns": (b"default", 0o644)},
        ),
    ],
)
def test_a_volume_holds_what_a_kubelet_puts_there(
    tmp_path: Path, volume: dict[str, Any], files: dict[str, tuple[bytes, int]]
) -> None:
    assert mounted(tmp_path / "v", volume) == files
    assert (tmp_path / "v").is_dir()


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "hf", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
        (
            {"persistentVolumeClaim": {"claimName": "models"}},
            "volumes of persistentVolumeClaim are not supported by the sandbox's pod runner",
        ),
    ],
)
def test_what_a_volume_lacks_is_said(tmp_path: Path, volume: dict[str, Any], why: str) -> None:
    with pytest.raises(VolumeError) as error:
        mounted(tmp_path / "v", volume)
    assert str(error.value) == why


def test_a_change_replaces_all_files_at_once_and_leaves_nothing_old(tmp_path: Path) -> None:
    assert write(tmp_path, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o600)})
    before = (tmp_path / "..data").resolve()
    assert not write(tmp_path, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o600)})
    assert write(tmp_path, {"a": File(b"3", 0o644), "c": File(b"4", 0o644)})
    assert content(tmp_path) == {"a": (b"3", 0o644), "c": (b"4", 0o644)}
    assert not before.exists()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a", "c"]


def test_memory_of_one_container_is_memory_and_shared_memory_is_a_directory() -> None:
    memory = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
    mount = {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}
    volume = made(Volume, memory)
    assert in_memory(pod(mount, volumes=[memory]), volume)
    assert not in_memory(pod(mount, mount, volumes=[memory]), volume)
    assert not in_memory(pod(mount, volumes=[memory]), made(Volume, {"name": "dshm", "emptyDir": {}}))
    assert not read_only(volume)
    assert not refreshes(pod(mount, volumes=[memory]))
