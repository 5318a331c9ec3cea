"""A kubeconfig is reduced to one context with its files inlined, or refused in one line that shows none of its text."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.findings import Finding
from stacks.kubeconfig import Kubeconfig, read_kubeconfig, read_kubeconfig_file, self_contained
from tests.stacks.files import DATA, kubeconfig

KEY = "speculation:existing.workload.kubeconfig"
PRINT = "give one as `kubectl config view --raw --minify` prints it"


def changed(**parts: Any) -> str:
    return yaml.safe_dump({**kubeconfig(), **parts})


REFUSED = [
    ("{", None, "is not YAML; give the text of a kubeconfig, as `kubectl config view --raw --minify` prints it"),
    ("just text", None, f"is not a kubeconfig (no clusters); {PRINT}"),
    ("clusters: {}", None, f"is not a kubeconfig (no clusters); {PRINT}"),
    (changed(**{"current-context": ""}), None, "names no current-context; set `context` beside it"),
    (changed(), "prod", "prod: has no such context; it has admin; correct `context`"),
    (changed(clusters=[]), None, "context admin names a cluster that it does not hold; correct the file"),
    (yaml.safe_dump(kubeconfig("")), None, f"its cluster has no server URL; {PRINT}"),
    (
        yaml.safe_dump(kubeconfig(**{"auth-provider": {"name": "gcp"}})),
        None,
        "logs in with `auth-provider`, which Kubernetes clients no longer support; use a token, a certificate or "
        "`exec`",
    ),
    (
        yaml.safe_dump(kubeconfig(**{"client-key": "key.pem"})),
        None,
        "its client-key is a relative path, and text has no folder; use kubeconfigFile, or inline it with `--flatten`",
    ),
]


@pytest.mark.parametrize(("text", "context", "line"), REFUSED)
def test_a_text_that_is_no_usable_kubeconfig_is_refused_in_one_line(text: str, context: str | None, line: str) -> None:
    found = read_kubeconfig(text, context, KEY)
    assert isinstance(found, Finding)
    assert found.line() == f"error: {KEY}: {line}"


def test_only_the_chosen_context_is_kept() -> None:
    document = kubeconfig()
    other = kubeconfig("https://203.0.113.9", token="other-token")
    document["clusters"] += [{"name": "o", "cluster": other["clusters"][0]["cluster"]}]
    document["users"] += [{"name": "o", "user": other["users"][0]["user"]}]
    document["contexts"] += [{"name": "other", "context": {"cluster": "o", "user": "o"}}]
    found = read_kubeconfig(yaml.safe_dump(document), "other", KEY)
    assert isinstance(found, Kubeconfig)
    assert (found.context, found.server) == ("other", "https://203.0.113.9")
    assert yaml.safe_load(found.text)["users"] == [{"name": "user", "user": {"token": "other-token"}}]
    assert "secret-token" not in found.text


def test_files_are_read_relative_to_the_kubeconfig_and_inlined(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    (folder / "ca.pem").write_text("CA")
    (folder / "token").write_text("file-token\n")
    document = copy.deepcopy(kubeconfig(tokenFile="token"))
    document["clusters"][0]["cluster"] = {"server": "https://203.0.113.1", "certificate-authority": "ca.pem"}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    found = read_kubeconfig_file("pki/kubeconfig", tmp_path, None, KEY)
    assert isinstance(found, Kubeconfig)
    selected = yaml.safe_load(found.text)
    assert selected["clusters"][0]["cluster"] == {
        "server": "https://203.0.113.1",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
    }
    assert selected["users"][0]["user"] == {"token": "file-token"}
    assert found.file == file


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    found = read_kubeconfig_file("nothing", tmp_path, None, f"{KEY}File")
    assert isinstance(found, Finding)
    assert found.line() == (
        f"error: {KEY}File: nothing: cannot be read (no such file or directory); "
        "give the path of a kubeconfig, relative to the project"
    )


CONTAINED = [
    ({"token": "t"}, []),
    ({"client-certificate-data": DATA, "client-key-data": DATA}, []),
    (
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}},
        [
            f"error: {KEY}: logs in with the plugin aws, which does not exist inside Modelplane's provider pods; "
            "make a kubeconfig with the token of a ServiceAccount bound to cluster-admin on the workload cluster"
        ],
    ),
    (
        {"as": "admin"},
        [f"error: {KEY}: holds no credentials; give one with a ServiceAccount token or a client certificate"],
    ),
]


@pytest.mark.parametrize(("user", "lines"), CONTAINED)
def test_a_workload_kubeconfig_must_work_inside_the_control_plane(user: dict[str, Any], lines: list[str]) -> None:
    found = read_kubeconfig(yaml.safe_dump(kubeconfig(**user)), None, KEY)
    assert isinstance(found, Kubeconfig)
    assert [finding.line() for finding in self_contained(found, KEY)] == lines
