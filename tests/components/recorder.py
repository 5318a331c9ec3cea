"""Runs the program under Pulumi's mocks and keeps every registration as the engine would see it: inputs, options,
outputs.
"""

from __future__ import annotations

import contextvars
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pulumi
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped, unused-ignore]
from pulumi.runtime import rpc
from pulumi.runtime.config import set_all_config
from pulumi.runtime.mocks import MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_root_resource, set_root_resource
from pulumi.runtime.stack import Stack, run_pulumi_func
from pulumi.runtime.sync_await import _ensure_event_loop, _sync_await

from components.gates.start import START
from components.identity import Identities

ROOT = Path(__file__).resolve().parents[2]
SECRET_KEY, SECRET_MARK = rpc._special_sig_key, rpc._special_secret_sig

# No test of the program reaches a cluster.
IDENTITIES = Identities("uid-control-plane", "uid-workload")
# What the gates' provider answers at `up`.
GATE_OUTPUTS: dict[str, dict[str, Any]] = {
    "speculation:gates:Namespace": {"made": True},
    "speculation:gates:InferenceClusterReady": {"gateway_address": "203.0.113.10"},
    "speculation:gates:Device": {"devices": ["gpu-1/gpu-0: NVIDIA L4, 23034Mi"]},
    "speculation:gates:ReplicasReady": {"replicas": ["model-1a2b3"], "uids": ["uid-1"]},
    "speculation:gates:ServiceServing": {"address": "http://203.0.113.20/ml-team/model"},
    "speculation:gates:ValidationRun": {
        "run": "abc-def",
        "verdict": '{"schema":1,"verdict":"speculating"}',
        "text": "OK",
        "sentence": "it speculates",
        "ok": True,
    },
}


@dataclass
class Registration:
    """One resource: its type, name, inputs (secrets marked), and the request with all options."""

    token: str
    name: str
    urn: str
    inputs: dict[str, Any]
    request: Any

    @property
    def depends_on(self) -> set[str]:
        """Names of the resources that it depends on, through options and inputs."""
        return {urn.rsplit("::", 1)[1] for urn in self.request.dependencies}

    @property
    def parent(self) -> str:
        return str(self.request.parent).rsplit("::", 1)[-1]

    @property
    def provider(self) -> str:
        """Name of the explicit provider, "" without one."""
        reference = str(self.request.provider)
        return reference.rsplit("::", 2)[1] if reference else ""


class Recorder(MockMonitor):
    def __init__(self, mocks: Mocks) -> None:
        super().__init__(mocks)
        self.seen: list[Registration] = []

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the protocol's
        if request.tok == START:
            return resource_pb2.ResourceInvokeResponse()
        return super().Invoke(request)  # type: ignore[no-untyped-call]

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's
        if request.type != "pulumi:pulumi:Stack":
            urn = self.make_urn(request.parent, request.type, request.name)
            self.seen.append(Registration(request.type, request.name, urn, _raw(request.object), request))
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


class Answers(Mocks):
    """Every Kubernetes object comes back as it was asked for; gates answer GATE_OUTPUTS."""

    def __init__(self, gates: Mapping[str, Mapping[str, Any]]) -> None:
        self.gates = {**GATE_OUTPUTS, **gates}

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        given = {key: value for key, value in args.inputs.items() if value is not None}
        return f"{args.name}-id", {**given, **self.gates.get(args.typ, {})}

    def call(self, args: Any) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        raise AssertionError(f"the program calls {args.token}")


@dataclass
class Ran:
    """What a run registered, the stack's outputs, and the error that ended it."""

    resources: list[Registration]
    outputs: dict[str, Any]
    error: str = ""

    def named(self, name: str) -> Registration:
        return next(resource for resource in self.resources if resource.name == name)

    def of(self, prefix: str) -> list[Registration]:
        return [resource for resource in self.resources if resource.token.startswith(prefix)]


def run_program(
    config: Mapping[str, str], secrets: tuple[str, ...] = (), *, preview: bool = False, **gates: Any
) -> Ran:
    """Run __main__.py with a config (keys with namespace). gates: class name -> outputs, instead of GATE_OUTPUTS."""
    answers = Answers({f"speculation:gates:{name}": outputs for name, outputs in gates.items()})
    monitor = Recorder(answers)
    # Pulumi keeps its root stack and its config in context variables: each run gets its own.
    return contextvars.copy_context().run(_run, answers, monitor, config, secrets, preview)


def _run(
    answers: Answers, monitor: Recorder, config: Mapping[str, str], secrets: tuple[str, ...], preview: bool
) -> Ran:
    _ensure_event_loop()  # type: ignore[no-untyped-call]
    set_root_resource(cast("pulumi.Resource", None))
    set_mocks(answers, project="speculation", stack="test", preview=preview, monitor=monitor)
    set_all_config(dict(config), list(secrets))

    def program() -> None:
        with mock.patch("components.identity.identify", return_value=IDENTITIES):
            runpy.run_path(str(ROOT / "__main__.py"))

    try:
        _sync_await(run_pulumi_func(program))
    except pulumi.RunError as error:
        return Ran(monitor.seen, {}, str(error))
    exported = cast("Stack", get_root_resource()).outputs
    return Ran(monitor.seen, _raw(_sync_await(rpc.serialize_properties(exported, {}))))


def is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.get(SECRET_KEY) == SECRET_MARK


def plain_texts(value: Any) -> Iterator[str]:
    """Every text in a value that is not inside a secret."""
    if is_secret(value):
        return
    if isinstance(value, dict):
        for inner in value.values():
            yield from plain_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from plain_texts(inner)
    elif isinstance(value, str):
        yield value


def _raw(struct: Any) -> dict[str, Any]:
    """A protobuf Struct as plain values, secrets still wrapped."""
    result: dict[str, Any] = MessageToDict(struct)
    return result
