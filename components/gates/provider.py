"""The Pulumi provider that serves this project's gates: Pulumi's gRPC protocol on one side, Gate objects on the other.

Pulumi starts it through the script `pulumi-resource-speculation` (see `plugins` in Pulumi.yaml) with the engine's
address as the argument, and reads the port from the first line of output. The process ends with Pulumi.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf import empty_pb2, struct_pb2  # type: ignore[import-untyped, unused-ignore]
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from components.gates.gate import Gate
from components.gates.waiting import GateError, Run

PACKAGE = "speculation"
VERSION = "0.1.0"

# Type token -> "module:class", loaded when first used so that a preview pays only for what it checks.
GATES = {
    "speculation:gates:Clusters": "components.gates.clusters:Clusters",
    "speculation:gates:Namespace": "components.gates.namespace:Namespace",
    "speculation:gates:InferenceClusterReady": "components.gates.inference_cluster:InferenceClusterReady",
    "speculation:gates:Device": "components.gates.device:Device",
    "speculation:gates:KindServed": "components.gates.kind_served:KindServed",
    "speculation:gates:ReplicasGone": "components.gates.replicas:ReplicasGone",
    "speculation:gates:ReplicasReady": "components.gates.replicas:ReplicasReady",
    "speculation:gates:ServiceServing": "components.gates.service:ServiceServing",
    "speculation:gates:ValidationRun": "components.gates.validation_run:ValidationRun",
    "speculation:gates:Verdict": "components.gates.verdict:VerdictGate",
}

# When the engine sets no timeout: longer than any wait that the settings allow by default.
DEFAULT_TIMEOUT = 30 * 60.0
# Every waiting gate holds a thread; a stack has about a dozen.
THREADS = 32
# How often to see whether Pulumi is still there.
PARENT_SECONDS = 2.0


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Pulumi's provider protocol over the table of gates."""

    def __init__(self, engine_address: str = "") -> None:
        self._cancelled = threading.Event()
        self._engine_address = engine_address
        self._engine: Any = None
        self._loaded: dict[str, Gate] = {}

    # The names below are the protocol's.
    def Handshake(self, request: Any, context: Any) -> Any:
        self._engine_address = request.engine_address or self._engine_address
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: Any) -> Any:
        self._engine_address = request.address
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        # Without acceptSecrets the engine unwraps secrets here and marks the outputs of the same name as secret again.
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        try:
            problems = self._gate(request.urn, context).problems(
                from_struct(request.news),
                from_struct(request.olds),
                from_struct(request.old_outputs),
                lambda text: self._log(request.urn, text, engine_pb2.WARNING, ephemeral=False),
            )
        except GateError as error:
            problems = [str(error)]
        except Exception:  # noqa: BLE001 - the engine must get an answer
            self._unexpected(context)
        # Without a property name: the engine prints the value beside it, and a kubeconfig is a secret.
        return provider_pb2.CheckResponse(
            inputs=request.news, failures=[provider_pb2.CheckFailure(reason=line) for line in problems]
        )

    def Diff(self, request: Any, context: Any) -> Any:
        gate = self._gate(request.urn, context)
        changed = gate.changed(from_struct(request.old_inputs), from_struct(request.olds), from_struct(request.news))
        state = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=state, diffs=changed, replaces=[key for key in changed if key in gate.replaces]
        )

    def Create(self, request: Any, context: Any) -> Any:
        gate, inputs = self._gate(request.urn, context), from_struct(request.properties)
        try:
            outputs = gate.preview(inputs, None) if request.preview else gate.create(inputs, self._run(request))
        except GateError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception:  # noqa: BLE001 - the engine must get an answer
            self._unexpected(context)
        identity = "" if request.preview else gate.identity(inputs)
        return provider_pb2.CreateResponse(id=identity, properties=to_struct({**inputs, **outputs}))

    def Update(self, request: Any, context: Any) -> Any:
        gate, inputs, olds = self._gate(request.urn, context), from_struct(request.news), from_struct(request.olds)
        try:
            outputs = gate.preview(inputs, olds) if request.preview else gate.update(inputs, olds, self._run(request))
        except GateError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception:  # noqa: BLE001 - the engine must get an answer
            self._unexpected(context)
        return provider_pb2.UpdateResponse(properties=to_struct({**inputs, **outputs}))

    def Delete(self, request: Any, context: Any) -> Any:
        try:
            self._gate(request.urn, context).delete(from_struct(request.properties), self._run(request))
        except GateError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception:  # noqa: BLE001 - the engine must get an answer
            self._unexpected(context)
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:
        # A gate has no state outside Pulumi's: a refresh keeps it.
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Invoke(self, request: Any, context: Any) -> Any:
        # Only ever called to have this process started early (start.py).
        return provider_pb2.InvokeResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        self._cancelled.set()
        return empty_pb2.Empty()

    def _gate(self, urn: str, context: Any) -> Gate:
        token = urn.split("::")[2].rsplit("$", 1)[-1]
        if token not in self._loaded:
            if token not in GATES:
                context.abort(
                    grpc.StatusCode.NOT_FOUND, f"{token} is not a resource of this provider; known: {', '.join(GATES)}"
                )
            module, name = GATES[token].split(":")
            self._loaded[token] = getattr(importlib.import_module(module), name)()
        return self._loaded[token]

    def _run(self, request: Any) -> Run:
        return Run(
            timeout=request.timeout or DEFAULT_TIMEOUT,
            say=lambda text: self._log(request.urn, text, engine_pb2.INFO, ephemeral=True),
            warn=lambda text: self._log(request.urn, text, engine_pb2.WARNING, ephemeral=False),
            cancelled=self._cancelled,
            tell=lambda text: self._log(request.urn, text, engine_pb2.INFO, ephemeral=False),
        )

    def _log(self, urn: str, text: str, severity: Any, *, ephemeral: bool) -> None:
        """Show a line at the resource in the engine's display; an ephemeral one is replaced by the next."""
        if not self._engine_address:
            return
        if self._engine is None:
            self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(self._engine_address))
        try:
            self._engine.Log(
                engine_pb2.LogRequest(severity=severity, message=text, urn=urn, streamId=0, ephemeral=ephemeral),
                timeout=5,
            )
        except grpc.RpcError:
            # Progress is a courtesy: a display that is gone must not fail the wait.
            return

    def _unexpected(self, context: Any) -> NoReturn:
        error = sys.exc_info()[1]
        if context.code() is None:
            print(traceback.format_exc(), file=sys.stderr)  # noqa: T201 - reaches the engine's diagnostics
            context.abort(
                grpc.StatusCode.INTERNAL, f"unexpected {type(error).__name__} in a gate of this stack: {error}"
            )
        raise error  # type: ignore[misc]


def from_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """A protobuf Struct as plain values; numbers without a fraction become int, as JSON writes them."""
    return {key: _from_value(value) for key, value in struct.fields.items()}


def to_struct(properties: Mapping[str, object]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(properties)
    return struct


def _from_value(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return from_struct(value.struct_value)
        case "list_value":
            return [_from_value(item) for item in value.list_value.values]
        case "number_value":
            return int(value.number_value) if value.number_value.is_integer() else value.number_value
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


def _end_with_parent() -> None:
    """A Pulumi that was killed cannot end its plugins; nothing here has to be tidied up."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def preload() -> None:
    """Import what every preview uses, while the engine connects."""
    importlib.import_module("components.gates.clusters")
    importlib.import_module("ssl")


def main(arguments: list[str]) -> None:
    """Serve until the engine ends this process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server = grpc.server(ThreadPoolExecutor(max_workers=THREADS), options=[("grpc.max_receive_message_length", -1)])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(arguments[-1] if arguments else ""), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)  # noqa: T201 - the protocol
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        # Pulumi forwards Ctrl-C as Cancel; the signal itself only reaches us when it goes to the whole process group.
        server.stop(grace=5).wait()
