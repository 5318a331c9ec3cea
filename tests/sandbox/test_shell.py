"""The sandbox's shell, its kubeconfigs and certificates: files made without any binary."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from sandbox import binaries, clusters, pki, pulumi_home
from sandbox.layout import CLUSTERS, Layout
from sandbox.tools import provider_version


@pytest.fixture
def tools(layout: Layout, tmp_path: Path) -> Path:
    """Programs that stand for built binaries: a Pulumi without hosts, the provider, kubectl."""
    folder = tmp_path / "built"
    folder.mkdir()
    for name in ("pulumi", "pulumi-resource-kubernetes", "kubectl"):
        (folder / name).write_text(f"#!/bin/sh\necho {name}\n")
        (folder / name).chmod(0o755)
        binaries.link(layout.tools / name, folder / name)
    return folder


def shell(layout: Layout, command: str, path: str = "/usr/bin:/bin") -> str:
    text = f". {layout.env_file}; . {layout.env_file}; {command}"
    return subprocess.run(
        ["/bin/sh", "-ec", text], env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_shell_file_makes_pulumi_and_kubectl_the_sandboxs(layout: Layout, tools: Path) -> None:
    pulumi_home.ensure(layout)
    assert shell(layout, "command -v pulumi; command -v kubectl").splitlines() == [
        str(layout.bin / "pulumi"),
        str(layout.bin / "kubectl"),
    ]
    assert shell(layout, "pulumi") == "pulumi"
    assert shell(layout, 'echo "$PULUMI_BACKEND_URL $PULUMI_HOME $KUBECONFIG"') == (
        f"{layout.pulumi_backend.as_uri()} {layout.pulumi_home} {layout.kubeconfig}"
    )
    # Sourced twice, the folders are on PATH once.
    assert shell(layout, 'echo "$PATH"').count(str(layout.bin)) == 1


def test_the_shell_and_a_started_pulumi_have_the_same_variables(layout: Layout, tools: Path) -> None:
    pulumi_home.ensure(layout)
    names = list(pulumi_home.variables(layout))
    found = shell(layout, " ".join(f'echo "${name}";' for name in names)).splitlines()
    assert dict(zip(names, found, strict=True)) == {name: pulumi_home.environment(layout)[name] for name in names}


def test_nothing_of_the_users_own_pulumi_is_used(layout: Layout, tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "secret")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "https://api.example.org")
    found = pulumi_home.environment(layout)
    assert "PULUMI_ACCESS_TOKEN" not in found
    assert found["PULUMI_BACKEND_URL"] == layout.pulumi_backend.as_uri()


def test_another_home_is_named_in_the_shell_the_default_is_not(layout: Layout) -> None:
    assert pulumi_home.variables(layout)["SANDBOX_HOME"] == str(layout.home)
    usual = Layout.from_env({})
    assert "SANDBOX_HOME" not in pulumi_home.variables(usual)


def test_hosts_lie_beside_a_pulumi_that_has_none_and_the_plugin_in_its_home(layout: Layout, tools: Path) -> None:
    pulumi_home.ensure(layout)
    pulumi_home.ensure(layout)
    # A file, not a link: the CLI looks for its hosts beside its own file.
    assert not (layout.bin / "pulumi").is_symlink()
    assert sorted(path.name for path in layout.bin.iterdir()) == [
        "kubectl",
        "pulumi",
        "pulumi-language-python",
        "pulumi-resource-pulumi-python",
    ]
    plugins = list((layout.pulumi_home / "plugins").iterdir())
    assert [path.name for path in plugins] == [f"resource-kubernetes-v{provider_version()}"]
    assert (plugins[0] / "pulumi-resource-kubernetes").resolve() == tools / "pulumi-resource-kubernetes"


def test_a_new_build_of_pulumi_replaces_the_old_one(layout: Layout, tools: Path, tmp_path: Path) -> None:
    pulumi_home.ensure(layout)
    other = tmp_path / "pulumi"
    other.write_text("#!/bin/sh\necho newer\n")
    other.chmod(0o755)
    binaries.link(layout.tools / "pulumi", other)
    pulumi_home.ensure(layout)
    assert shell(layout, "pulumi") == "newer"


def test_an_official_pulumi_keeps_its_own_hosts(layout: Layout, tools: Path) -> None:
    pulumi_home.ensure(layout)
    for name in ("pulumi-language-python", "pulumi-resource-pulumi-python"):
        (tools / name).write_text("")
    pulumi_home.ensure(layout)
    assert (layout.bin / "pulumi").resolve() == tools / "pulumi"
    assert not (layout.bin / "pulumi-language-python").exists()


def test_kubeconfigs_are_self_contained_with_one_context_for_each_cluster(layout: Layout) -> None:
    clusters.prepare(layout)
    both = yaml.safe_load(layout.kubeconfig.read_text())
    assert [item["name"] for item in both["contexts"]] == ["control-plane", "workload"]
    assert both["current-context"] == "control-plane"
    for name in CLUSTERS:
        document = yaml.safe_load(layout.cluster(name).kubeconfig.read_text())
        assert document["clusters"][0]["cluster"]["server"] == layout.cluster(name).server
        user = document["users"][0]["user"]
        assert set(user) == {"client-certificate-data", "client-key-data"}
        certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
        organisations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        assert [item.value for item in organisations] == ["system:masters"]
    assert layout.kubeconfig.stat().st_mode & 0o077 == 0


def test_preparing_again_changes_no_file(layout: Layout) -> None:
    clusters.prepare(layout)

    def snapshot() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in layout.home.rglob("*") if path.is_file()}

    before = snapshot()
    clusters.prepare(layout)
    assert snapshot() == before


def test_the_clusters_do_not_trust_each_other(layout: Layout) -> None:
    clusters.prepare(layout)
    ours, theirs = (layout.cluster(name).pki for name in CLUSTERS)
    trust = ssl.create_default_context(cafile=str(ours / "ca.crt"))
    assert len(trust.get_ca_certs()) == 1
    assert (ours / "ca.crt").read_bytes() != (theirs / "ca.crt").read_bytes()


def test_interrupted_certificates_are_made_again_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "control-plane"
    (tmp_path / ".control-plane.making").mkdir()
    (tmp_path / ".control-plane.making" / "ca.key").write_text("half")
    pki.ensure(folder)
    expected = {f"{item.stem}.{end}" for item in pki.IDENTITIES for end in ("crt", "key")}
    assert {path.name for path in folder.iterdir()} == expected | {
        "ca.crt",
        "ca.key",
        pki.SERVICE_ACCOUNT_KEY,
        pki.SERVICE_ACCOUNT_PUBLIC,
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_data_without_its_certificates_is_dropped(layout: Layout) -> None:
    clusters.prepare(layout)
    stale = layout.workload.etcd_data / "member"
    stale.mkdir()
    kept = layout.control_plane.etcd_data / "member"
    kept.mkdir()
    for path in layout.workload.pki.iterdir():
        path.unlink()
    layout.workload.pki.rmdir()
    clusters.prepare(layout)
    assert not stale.exists()
    assert kept.exists()


def test_every_address_and_port_of_a_layout_is_its_own(layout: Layout) -> None:
    ports = list(layout.ports.values())
    assert len(set(ports)) == len(ports)
    moved = replace(layout, port_base=layout.port_base + 100)
    assert not set(moved.ports.values()) & set(ports)
    assert Layout.from_env(dict(os.environ) | layout.env()) == layout
