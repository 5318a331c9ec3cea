"""The gRPC side: Crossplane's RunFunctionRequest in, a kind's compose(), RunFunctionResponse out."""

from __future__ import annotations

import asyncio
import datetime
import logging
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc  # type: ignore[import-untyped, unused-ignore]
from crossplane.function import resource, response, runtime
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1
from google.protobuf import struct_pb2  # type: ignore[import-untyped, unused-ignore]

from sandbox.functions import (
    inference_class,
    inference_cluster,
    inference_gateway,
    model_deployment,
    model_endpoint,
    model_replica,
    model_service,
    serving_stack,
)
from sandbox.functions.model import Desired, Manifest, Observed, Selector, Settings

log = logging.getLogger("sandbox.functions")

Compose = Callable[[Observed, Settings], Desired]
COMPOSE: Mapping[str, Compose] = MappingProxyType(
    {
        "InferenceClass": inference_class.compose,
        "InferenceCluster": inference_cluster.compose,
        "InferenceGateway": inference_gateway.compose,
        "ServingStack": serving_stack.compose,
        "ModelDeployment": model_deployment.compose,
        "ModelReplica": model_replica.compose,
        "ModelEndpoint": model_endpoint.compose,
        "ModelService": model_service.compose,
    }
)


def run(request: fnv1.RunFunctionRequest, settings: Settings) -> fnv1.RunFunctionResponse:
    """Answer one request. An unknown kind or a function that fails is a fatal result: the composite says why."""
    composite = _manifest(request.observed.composite.resource)
    kind = composite.get("kind", "")
    if kind not in COMPOSE:
        answer = response.to(request)
        response.fatal(answer, f"the sandbox has no composition function for kind {kind!r}")
        return answer
    observed = Observed(
        composite,
        {key: _manifest(item.resource) for key, item in request.observed.resources.items()},
        {
            name: [_manifest(item.resource) for item in found.items]
            for name, found in request.required_resources.items()
        },
    )
    try:
        return _answer(request, COMPOSE[kind](observed, settings))
    except Exception as error:  # whatever fails has to be seen on the composite, and the process has to go on
        log.exception("%s %s", kind, observed.name)
        answer = response.to(request)
        response.fatal(answer, f"{kind} {observed.name}: {type(error).__name__}: {error}")
        return answer


def _answer(request: fnv1.RunFunctionRequest, desired: Desired) -> fnv1.RunFunctionResponse:
    answer = response.to(request, ttl=datetime.timedelta(seconds=desired.ttl))
    for name, selector in desired.requires.items():
        _require(answer, name, selector)
    for key, manifest in desired.resources.items():
        item = answer.desired.resources[key]
        resource.update(item, manifest)
        item.ready = fnv1.READY_TRUE if key in desired.ready else fnv1.READY_FALSE
    if desired.status:
        resource.update(answer.desired.composite, {"status": desired.status})
    if desired.composite_ready is not None:
        answer.desired.composite.ready = fnv1.READY_TRUE if desired.composite_ready else fnv1.READY_FALSE
    for condition in desired.conditions:
        status = fnv1.STATUS_CONDITION_TRUE if condition.status else fnv1.STATUS_CONDITION_FALSE
        item = fnv1.Condition(type=condition.type, status=status, reason=condition.reason)
        if condition.message:
            item.message = condition.message
        answer.conditions.append(item)
    for warning in desired.warnings:
        response.warning(answer, warning)
    return answer


def _require(answer: fnv1.RunFunctionResponse, name: str, selector: Selector) -> None:
    wanted = answer.requirements.resources[name]
    wanted.api_version, wanted.kind = selector.api_version, selector.kind
    if selector.name is not None:
        wanted.match_name = selector.name
    else:
        # An empty selector matches all; it has to be there to be one.
        wanted.match_labels.SetInParent()
        wanted.match_labels.labels.update(selector.labels)


def _manifest(struct: struct_pb2.Struct) -> Manifest:
    """A Struct as JSON values. Structs have no integers: whole numbers become ints again."""
    return {key: _value(value) for key, value in struct.fields.items()}


def _value(value: struct_pb2.Value) -> Any:  # noqa: ANN401 (any JSON value)
    match value.WhichOneof("kind"):
        case "struct_value":
            return _manifest(value.struct_value)
        case "list_value":
            return [_value(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


class Runner(grpcv1.FunctionRunnerServiceServicer):
    """Serves all kinds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def RunFunction(  # noqa: N802 (gRPC's name)
        self,
        request: fnv1.RunFunctionRequest,
        context: grpc.aio.ServicerContext,  # noqa: ARG002 (gRPC's signature)
    ) -> fnv1.RunFunctionResponse:
        return run(request, self._settings)


async def serve(address: str, certificates: Path, settings: Settings) -> None:
    """Serve on address (host:port) with mutual TLS until SIGTERM or SIGINT.

    certificates: folder with tls.crt, tls.key and ca.crt.
    """
    server = grpc.aio.server()
    grpcv1.add_FunctionRunnerServiceServicer_to_server(Runner(settings), server)  # type: ignore[no-untyped-call]
    server.add_secure_port(address, runtime.load_credentials(str(certificates)))
    await server.start()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    log.info("serving %d kinds on %s", len(COMPOSE), address)
    await stopped.wait()
    await server.stop(grace=2)
