"""The gates' Kubernetes client, against real sockets: what it reads, and the sentence for each way in which it
cannot.
"""

from __future__ import annotations

import base64
import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.gates.errors import KubeError
from components.gates.kube import Kube, path
from tests.components.gates.api import Api, kubeconfig_text, serve
from tests.validation import kube_server


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as running:
        yield running


PATHS = [
    (path("v1", "nodes"), "/api/v1/nodes"),
    (path("v1", "pods", namespace="default", name="a", sub="log"), "/api/v1/namespaces/default/pods/a/log"),
    (
        path("modelplane.ai/v1alpha1", "modelservices", namespace="ml-team", name="q"),
        "/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modelservices/q",
    ),
]


@pytest.mark.parametrize(("built", "expected"), PATHS)
def test_paths_are_those_of_the_api(built: str, expected: str) -> None:
    assert built == expected


def test_it_reads_lists_makes_and_deletes_over_one_connection(api: Api) -> None:
    kube = Kube(api.kubeconfig)
    url = path("v1", "configmaps", namespace="default")
    kube.create(url, {"metadata": {"name": "a", "labels": {"k": "1"}}})
    kube.create(url, {"metadata": {"name": "b", "labels": {"k": "2"}}})
    assert [found["metadata"]["name"] for found in kube.list(url, labels="k=2")] == ["b"]
    assert kube.delete(f"{url}/a")
    assert not kube.delete(f"{url}/a")
    assert kube.find(f"{url}/a") is None
    assert kube.list(path("x.example/v1", "unknown")) == []


def test_a_closed_connection_is_opened_anew(api: Api) -> None:
    api.objects["/api/v1/namespaces/kube-system"] = {"metadata": {"uid": "u"}}
    kube = Kube(api.kubeconfig)
    kube.get(path("v1", "namespaces", name="kube-system"))
    assert kube._connection is not None
    assert kube._connection.sock is not None
    kube._connection.sock.shutdown(socket.SHUT_RDWR)
    assert kube.get(path("v1", "namespaces", name="kube-system"))["metadata"]["uid"] == "u"


REFUSED = [
    (401, "{url} does not accept the kubeconfig's credentials (401)", True),
    (403, "{url} forbids what the stack needs: refused for the test", True),
    (500, "{url} answers 500: refused for the test", False),
]


@pytest.mark.parametrize(("status", "message", "fatal"), REFUSED)
def test_a_refusal_says_what_it_means(status: int, message: str, fatal: bool, api: Api) -> None:
    api.refuse["/api/v1/nodes"] = status
    with pytest.raises(KubeError) as raised:
        Kube(api.kubeconfig).get("/api/v1/nodes")
    assert (str(raised.value), raised.value.fatal) == (message.format(url=api.url), fatal)


def test_nobody_listening_is_one_sentence() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    with pytest.raises(KubeError) as raised:
        Kube(kubeconfig_text(f"http://127.0.0.1:{port}")).get("/api/v1/nodes")
    assert str(raised.value) == f"http://127.0.0.1:{port} is not reachable (connection refused)"


def test_one_that_accepts_and_says_nothing_is_not_waited_for_long() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KubeError) as raised:
            Kube(kubeconfig_text(server), timeout=1).get("/api/v1/nodes")
    assert str(raised.value) == f"{server} does not answer within 1 s"


def tls_kubeconfig(folder: Path, url: str, *, authority: bytes | None = None, **cluster: Any) -> str:
    text = authority or (folder / "ca.crt").read_bytes()
    document = yaml.safe_load(kubeconfig_text(url, token=kube_server.TOKEN))
    document["clusters"][0]["cluster"] |= {"certificate-authority-data": base64.b64encode(text).decode(), **cluster}
    return yaml.safe_dump(document)


PODS = path("v1", "pods", namespace="default")


def test_tls_is_checked_against_the_kubeconfigs_authority(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with kube_server.serve(tmp_path / "a") as server, kube_server.serve(tmp_path / "b"):
        assert Kube(tls_kubeconfig(tmp_path / "a", server.url)).list(PODS) == []
        other = (tmp_path / "b" / "ca.crt").read_bytes()
        with pytest.raises(KubeError) as raised:
            Kube(tls_kubeconfig(tmp_path / "a", server.url, authority=other)).list(PODS)
        assert str(raised.value).startswith(
            f"{server.url} shows a certificate that the kubeconfig's authority did not sign ("
        )
        insecure = {"insecure-skip-tls-verify": True}
        assert Kube(tls_kubeconfig(tmp_path / "a", server.url, authority=other, **insecure)).list(PODS) == []


def test_a_name_for_tls_that_differs_from_the_address_is_respected(tmp_path: Path) -> None:
    with kube_server.serve(tmp_path) as server, pytest.raises(KubeError, match=r"did not sign|not valid for"):
        Kube(tls_kubeconfig(tmp_path, server.url, authority=None, **{"tls-server-name": "another.example"})).list(PODS)


def plugin(folder: Path, script: str) -> str:
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    credential = json.dumps({"kind": "ExecCredential", "status": {"token": kube_server.TOKEN}})
    command = plugin(tmp_path, f"echo '{credential}'")
    with kube_server.serve(tmp_path) as server:
        document = yaml.safe_load(tls_kubeconfig(tmp_path, server.url))
        document["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}
        assert Kube(yaml.safe_dump(document)).list(PODS) == []


PLUGINS = [
    ("echo 'token expired' >&2; exit 3", "failed: token expired"),
    ("echo nonsense", "printed no ExecCredential"),
]


@pytest.mark.parametrize(("script", "message"), PLUGINS)
def test_an_exec_plugin_that_fails_is_named(script: str, message: str, tmp_path: Path) -> None:
    command = plugin(tmp_path, script)
    text = kubeconfig_text("http://127.0.0.1:1", exec={"command": command})
    with pytest.raises(KubeError) as raised:
        Kube(text).list(PODS)
    assert str(raised.value) == f"the kubeconfig's exec plugin {command} {message}"


def test_an_exec_plugin_that_is_not_there_is_named() -> None:
    # pulumi-kubernetes issue 3369: gke-gcloud-auth-plugin missing.
    with pytest.raises(KubeError) as raised:
        Kube(kubeconfig_text("http://127.0.0.1:1", exec={"command": "gke-gcloud-auth-plugin-missing"})).list(PODS)
    assert str(raised.value) == "the kubeconfig's exec plugin gke-gcloud-auth-plugin-missing is not installed"
