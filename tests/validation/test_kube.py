from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.validation.kube_server import KubeServer, serve
from validation.kube import LOG_HEAD_BYTES, ApiError, Kube


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubeServer]:
    with serve(tmp_path) as state:
        yield state


@pytest.fixture
def kube(server: KubeServer) -> Kube:
    return Kube(server.url, server.service_account)


def pod(name: str, replica: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "labels": {"modelplane.ai/serving": replica}}}


def test_pods_are_listed_by_label(server: KubeServer, kube: Kube) -> None:
    server.pods = [pod("a", "one"), pod("b", "two"), pod("c", "three")]
    found = kube.list_pods("default", "modelplane.ai/serving in (one,three)")
    assert [item["metadata"]["name"] for item in found] == ["a", "c"]


def test_an_authority_without_key_identifiers_is_enough(server: KubeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    original = ssl.create_default_context

    def strict(**given: Any) -> ssl.SSLContext:
        context = original(**given)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # what Python 3.13, the Job's own, has by default
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    assert Kube(server.url, server.service_account).list_pods("default", "modelplane.ai/serving in (one)") == []


def test_a_log_within_the_limit_is_complete(server: KubeServer, kube: Kube) -> None:
    server.logs[("a", False)] = "start\nend\n"
    log = kube.pod_log("default", "a", "engine")
    assert (log.text, log.complete) == ("start\nend\n", True)


def test_a_long_log_keeps_its_start_up_lines_and_its_end(server: KubeServer, kube: Kube) -> None:
    middle = "x" * 99 + "\n"
    server.logs[("a", False)] = "first line\n" + middle * (2 * LOG_HEAD_BYTES // 100) + "last line\n"
    log = kube.pod_log("default", "a", "engine")
    assert (log.complete, log.text.startswith("first line\n"), log.text.endswith("last line\n")) == (False, True, True)
    assert len(log.text) < 1.2 * LOG_HEAD_BYTES


def test_the_previous_log_is_another_one(server: KubeServer, kube: Kube) -> None:
    server.logs = {("a", False): "now", ("a", True): "before"}
    assert kube.pod_log("default", "a", "engine", previous=True).text == "before"


def test_the_result_is_applied_with_labels(server: KubeServer, kube: Kube) -> None:
    kube.apply_config_map("own", "verdict", {"verdict.json": "{}"}, {"speculation/run": "r1"})
    assert server.config_maps == {
        ("own", "verdict"): {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "verdict", "namespace": "own", "labels": {"speculation/run": "r1"}},
            "data": {"verdict.json": "{}"},
        }
    }


def test_the_token_is_read_again_for_each_call(server: KubeServer, kube: Kube) -> None:
    kube.list_pods("default", "modelplane.ai/serving in (one)")
    server.token = "renewed"
    (server.service_account / "token").write_text("renewed\n")
    assert kube.list_pods("default", "modelplane.ai/serving in (one)") == []


REFUSALS: list[tuple[str, Callable[[Kube], object], str]] = [
    (
        "pods",
        lambda kube: kube.list_pods("default", "modelplane.ai/serving in (one)"),
        "cannot list pods in namespace default: "
        "the ServiceAccount lacks the permission to list pods in namespace default (403)",
    ),
    (
        "pods/log",
        lambda kube: kube.pod_log("default", "a", "engine"),
        "cannot read the log of container engine of pod default/a: "
        "the ServiceAccount lacks the permission to get pods/log in namespace default (403)",
    ),
    (
        "configmaps",
        lambda kube: kube.apply_config_map("own", "verdict", {}, {}),
        "cannot write ConfigMap own/verdict: "
        "the ServiceAccount lacks the permission to create and patch configmaps in namespace own (403)",
    ),
]


@pytest.mark.parametrize(("resource", "call", "message"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_a_403_names_the_missing_permission(
    server: KubeServer, kube: Kube, resource: str, call: Callable[[Kube], object], message: str
) -> None:
    server.forbidden = {resource}
    with pytest.raises(ApiError) as caught:
        call(kube)
    assert (str(caught.value), caught.value.status) == (message, 403)


def test_a_refused_token_is_said_in_one_line(server: KubeServer, kube: Kube) -> None:
    (server.service_account / "token").write_text("expired")
    with pytest.raises(ApiError) as caught:
        kube.list_pods("default", "modelplane.ai/serving in (one)")
    assert str(caught.value) == (
        "cannot list pods in namespace default: the API server does not accept the ServiceAccount's token (401)"
    )


def test_other_refusals_carry_the_servers_own_message(kube: Kube) -> None:
    with pytest.raises(ApiError) as caught:
        kube.pod_log("default", "gone", "engine", previous=True)
    assert str(caught.value) == (
        "cannot read the previous log of container engine of pod default/gone: "
        'previous terminated container "engine" in pod "gone" not found (400)'
    )


def test_an_api_server_that_is_not_there_is_said_in_one_line(server: KubeServer) -> None:
    with pytest.raises(ApiError, match=r"^cannot list pods .*: https://127\.0\.0\.1:1 does not answer: .*refused"):
        Kube("https://127.0.0.1:1", server.service_account).list_pods("default", "a in (b)")


def test_a_certificate_of_another_authority_is_refused(server: KubeServer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with serve(other), pytest.raises(ApiError, match=r"does not answer: .*CERTIFICATE_VERIFY_FAILED"):
        Kube(server.url, other).list_pods("default", "a in (b)")


def test_missing_service_account_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r"^cannot read the cluster's CA from .*ca\.crt: No such file or directory$"):
        Kube("https://127.0.0.1:1", tmp_path)
    with pytest.raises(ApiError, match=r"^cannot list pods .*: no ServiceAccount token in .*token: No such file"):
        Kube("http://127.0.0.1:1", tmp_path).list_pods("default", "a in (b)")


def test_outside_of_a_cluster_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ApiError, match="not a pod of a Kubernetes cluster"):
        Kube.in_cluster()
