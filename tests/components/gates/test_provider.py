"""The provider as Pulumi meets it: the script is started, its port read, its protocol spoken over a real socket."""

from __future__ import annotations

import importlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped, unused-ignore]
import pytest
from google.protobuf import empty_pb2  # type: ignore[import-untyped, unused-ignore]
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

from components.gates.gate import UNKNOWN
from components.gates.nodes import no_node
from components.gates.provider import GATES, from_struct, to_struct
from components.gates.start import START
from tests.components.gates.api import Api, serve

SCRIPT = Path(__file__).resolve().parents[3] / "components" / "gates" / "pulumi-resource-speculation"
NAMESPACES = "/api/v1/namespaces"


class Engine(engine_pb2_grpc.EngineServicer):
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool]] = []

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's
        self.lines.append((request.urn.split("::")[-1], request.message, request.ephemeral))
        return empty_pb2.Empty()


@dataclass
class Provider:
    stub: Any
    engine: Engine
    process: subprocess.Popen[str]
    urns: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    engine = Engine()
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    # From another directory, as a plain `pulumi destroy` in a subdirectory would.
    process = subprocess.Popen(
        [SCRIPT, f"127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True, cwd="/", env=environment
    )
    assert process.stdout is not None
    with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
        yield Provider(provider_pb2_grpc.ResourceProviderStub(channel), engine, process)
    process.terminate()
    process.wait(10)
    process.stdout.close()
    server.stop(0)


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as running:
        yield running


def urn(kind: str) -> str:
    return f"urn:pulumi:test::speculation::speculation:components:Model$speculation:gates:{kind}::it"


def test_it_serves_previews_and_unwraps_secrets_itself_in_no_case(provider: Provider) -> None:
    answer = provider.stub.Configure(provider_pb2.ConfigureRequest())
    assert (answer.supportsPreview, answer.acceptSecrets) == (True, False)


def test_it_can_be_called_to_be_started_early(provider: Provider) -> None:
    assert list(provider.stub.Invoke(provider_pb2.InvokeRequest(tok=START)).failures) == []


def test_create_update_and_delete_of_a_gate(provider: Provider, api: Api) -> None:
    given = {"kubeconfig": api.kubeconfig, "name": "ml-team", "owner": "speculation/test"}
    created = provider.stub.Create(
        provider_pb2.CreateRequest(urn=urn("Namespace"), properties=to_struct(given), timeout=5)
    )
    assert (created.id, from_struct(created.properties)) == ("ml-team", {**given, "made": True})
    same = provider_pb2.DiffRequest(
        urn=urn("Namespace"), olds=created.properties, old_inputs=to_struct(given), news=to_struct(given)
    )
    assert provider.stub.Diff(same).changes == provider_pb2.DiffResponse.DIFF_NONE
    renamed = to_struct({**given, "name": "other"})
    diff = provider.stub.Diff(
        provider_pb2.DiffRequest(
            urn=urn("Namespace"), olds=created.properties, old_inputs=to_struct(given), news=renamed
        )
    )
    assert (list(diff.diffs), list(diff.replaces)) == (["name"], ["name"])
    provider.stub.Delete(provider_pb2.DeleteRequest(urn=urn("Namespace"), properties=created.properties, timeout=5))
    assert f"{NAMESPACES}/ml-team" not in api.objects


def test_a_preview_asks_nothing_of_a_waiting_gate(provider: Provider, api: Api) -> None:
    given = to_struct({"kubeconfig": api.kubeconfig, "name": "workload", "spec": "x"})
    answer = provider.stub.Create(
        provider_pb2.CreateRequest(urn=urn("InferenceClusterReady"), properties=given, preview=True)
    )
    assert (from_struct(answer.properties)["gateway_address"], api.seen) == (UNKNOWN, [])


def test_a_wait_that_fails_is_one_sentence_with_progress_before_it(provider: Provider, api: Api) -> None:
    given = to_struct({"kubeconfig": api.kubeconfig, "name": "workload", "spec": "x"})
    with pytest.raises(grpc.RpcError) as raised:
        provider.stub.Create(
            provider_pb2.CreateRequest(urn=urn("InferenceClusterReady"), properties=given, timeout=0.5)
        )
    assert raised.value.details() == "waited 0 s in vain for InferenceCluster workload: it does not exist"
    assert ("it", "waiting for InferenceCluster workload: it does not exist (0 s)", True) in provider.engine.lines


def test_what_is_wrong_before_the_start_is_a_check_failure_without_its_value(provider: Provider) -> None:
    given = to_struct({"kubeconfig": "k", "name": "new", "spec": "x"})
    olds = to_struct({"kubeconfig": "k", "name": "old", "spec": "x"})
    answer = provider.stub.Check(provider_pb2.CheckRequest(urn=urn("InferenceClusterReady"), olds=olds, news=given))
    (failure,) = answer.failures
    assert (failure.property, failure.reason.split(":")[0]) == ("", "platform.clusterName")


def test_what_a_person_should_know_is_a_warning_that_stays(provider: Provider, api: Api) -> None:
    """The control plane and the workload cluster are one server here, which has neither Crossplane nor a GPU node."""
    api.objects["/apis"] = {"groups": [{"name": "resource.k8s.io", "versions": [{"version": "v1"}]}]}
    api.put("/api/v1/nodes", {"metadata": {"name": "system-1"}})
    given = {
        "control_plane_kubeconfig": api.kubeconfig,
        "workload_kubeconfig": api.kubeconfig,
        "control_plane_uid": "a",
        "workload_uid": "b",
        "node_pool": "gpu",
        "node_count": 1,
        "secrets": [],
    }
    answer = provider.stub.Check(provider_pb2.CheckRequest(urn=urn("Clusters"), news=to_struct(given)))
    assert [failure.reason.split(";")[0] for failure in answer.failures] == ["the control plane has no Crossplane"]
    assert ("it", no_node("gpu"), False) in provider.engine.lines


def test_an_unknown_kind_is_named(provider: Provider) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        provider.stub.Create(provider_pb2.CreateRequest(urn=urn("Nothing")))
    assert raised.value.details().startswith("speculation:gates:Nothing is not a resource of this provider; known: ")


def test_an_error_of_our_own_is_told_apart_from_a_clusters(provider: Provider) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        provider.stub.Create(
            provider_pb2.CreateRequest(urn=urn("Namespace"), properties=to_struct({"kubeconfig": "{}"}))
        )
    assert raised.value.details() == "unexpected KeyError in a gate of this stack: 'clusters'"


def test_every_gate_of_the_table_can_be_loaded() -> None:
    for target in GATES.values():
        module, name = target.split(":")
        assert hasattr(importlib.import_module(module), name)


def test_numbers_come_back_as_they_were_given() -> None:
    given = {"count": 1, "share": 0.5, "flag": True, "none": None, "list": [1, "a"], "nested": {"n": 2}}
    assert from_struct(to_struct(given)) == given
    assert isinstance(from_struct(to_struct(given))["count"], int)


def test_ctrl_c_ends_a_wait_within_seconds(api: Api) -> None:
    process = subprocess.Popen([SCRIPT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        given = to_struct({"kubeconfig": api.kubeconfig, "name": "workload", "spec": "x"})
        threading.Timer(0.5, lambda: stub.Cancel(empty_pb2.Empty())).start()
        start = time.monotonic()
        with pytest.raises(grpc.RpcError) as raised:
            stub.Create(provider_pb2.CreateRequest(urn=urn("InferenceClusterReady"), properties=given, timeout=60))
        assert time.monotonic() - start < 10
    assert raised.value.details() == (
        "cancelled while waiting for InferenceCluster workload: it does not exist; `pulumi up` goes on from here"
    )
    process.terminate()
    process.wait(10)
    process.stdout.close()
