"""What a person reads when an engine does not come up: its last words and their cause, through the gate itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.gates.replicas import ReplicasReady
from components.gates.service import ServiceServing
from components.gates.waiting import GateError
from tests.components.gates.api import Api, Clock, serve
from tests.components.gates.objects import Manifest, condition, event, pod, waiting
from tests.engine.samples import own

TRACEBACK = (
    "(APIServer pid=1) INFO 03-02 09:15:01 [api_utils.py:273] non-default args: {'model': 'm'}\n"
    "(EngineCore pid=133) ERROR 03-02 09:16:20 [core.py:1124] EngineCore failed to start.\n"
    "(EngineCore pid=133) ERROR 03-02 09:16:20 [core.py:1124] Traceback (most recent call last):\n"
    '(EngineCore pid=133) ERROR 03-02 09:16:20 [core.py:1124]   File "core.py", line 1098, in run_engine_core\n'
    "%s"
    "(EngineCore pid=133) Process EngineCore:\n"
    "(APIServer pid=1) Traceback (most recent call last):\n"
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)
HEADER = "(EngineCore pid=133) ERROR 03-02 09:16:20 [core.py:1124] "
HUB = "https://huggingface.co/meta-llama/Llama-3.2-1B-Instruct"


def died(*message: str) -> str:
    """The log of an engine whose last exception says this."""
    return TRACEBACK % "".join(f"{HEADER}{line}\n" for line in message)


# id -> (log, exit code, reason, restarts, what `up` says after "engine in pod p exits with code N: ").
WORDS = {
    "E88: the driver does not fit the image's CUDA (vLLM issue 21979)": (
        died(
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display "
            "driver / cuda driver combination"
        ),
        1,
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / "
        "cuda driver combination (the node's NVIDIA driver does not fit the CUDA version of the image (error 803)); "
        "take a newer driver on the GPU nodes, or an image built for the driver's CUDA version",
    ),
    "E88: the driver is older than the image's CUDA": (
        died("RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update it."),
        1,
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update it. (the "
        "node's NVIDIA driver is older than the CUDA of the image (it knows CUDA 12080)); take a newer driver on the "
        "GPU nodes, or an image built for the driver's CUDA version",
    ),
    "E89: a KV cache too small, with the largest context as vLLM says it": (
        own("dies-kv-cache.log"),
        1,
        "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (3.10 GiB). Based on the available memory, the estimated "
        "maximum model length is 22560. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
        "initializing the engine. (a context of 40960 tokens needs 5.62 GiB of KV cache and 3.10 GiB are there); set "
        "--max-model-len to at most 22560",
    ),
    "E89: and without it when the version does not say": (
        died(
            "ValueError: To serve at least one request with the models's max seq len (1048576), (24.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (9.97 GiB)."
        ),
        1,
        "ValueError: To serve at least one request with the models's max seq len (1048576), (24.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (9.97 GiB). (a context of 1048576 tokens needs "
        "24.00 GiB of KV cache and 9.97 GiB are there); lower --max-model-len or --max-num-seqs, or take a GPU with "
        "more memory",
    ),
    "the GPU's memory is used up": (
        died(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 892.00 MiB. GPU 0 has a total capacity of "
            "22.03 GiB of which 311.12 MiB is free."
        ),
        1,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 892.00 MiB. GPU 0 has a total capacity of 22.03 "
        "GiB of which 311.12 MiB is free. (the GPU ran out of memory (an allocation of 892.00 MiB failed)); set "
        "--max-num-seqs to what the load needs and leave slack in --gpu-memory-utilization: with speculation the "
        "sampler needs k+1 rows of logits a request, which the start-up profile does not reserve",
    ),
    "a gated model without a token": (
        died(
            "OSError: You are trying to access a gated repo.",
            f"Make sure to have access to it at {HUB}.",
            "401 Client Error. (Request ID: Root=1-695139c1)",
            "",
            f"Cannot access gated repo for url {HUB}/resolve/main/config.json.",
        ),
        1,
        f"OSError: You are trying to access a gated repo. Make sure to have access to it at {HUB}. 401 Client Error. "
        f"(Request ID: Root=1-695139c1) Cannot access gated repo for url {HUB}/resolve/main/config.json. (the model is "
        "gated and the engine has no token, or an invalid one); accept the model's licence on its hub page and give a "
        "token of that account as HF_TOKEN from a Secret",
    ),
    "a gated model and a token without access": (
        died("OSError: You are trying to access a gated repo.", "403 Client Error. (Request ID: Root=1)"),
        1,
        "OSError: You are trying to access a gated repo. 403 Client Error. (Request ID: Root=1) (the model is gated "
        "and the token has no access to it); accept the model's licence on its hub page and give a token of that "
        "account as HF_TOKEN from a Secret",
    ),
    "an argument that this version does not know": (
        own("dies-unknown-argument.log"),
        2,
        "vllm serve: error: unrecognized arguments: --disable-log-requests (this version of vLLM does not know: "
        "--disable-log-requests); remove the argument, or take a version that has it",
    ),
    "async scheduling with a method that it does not take": (
        died("ValueError: Currently, async scheduling is only supported with EAGLE/MTP kind of speculative decoding"),
        1,
        "ValueError: Currently, async scheduling is only supported with EAGLE/MTP kind of speculative decoding "
        "(--async-scheduling is refused with this speculation method); remove --async-scheduling: vLLM chooses the "
        "scheduling that fits the method",
    ),
    "E95: a Service named vllm (vLLM issue 34199)": (
        died(
            "ValueError: VLLM_PORT 'tcp://169.169.193.120:6785' appears to be a URI. This may be caused by a "
            "Kubernetes service discovery issue,check the warning in: https://docs.vllm.ai/en/stable/usage/env_vars.html"
        ),
        1,
        "ValueError: VLLM_PORT 'tcp://169.169.193.120:6785' appears to be a URI. This may be caused by a Kubernetes "
        "service discovery issue,check the warning in: https://docs.vllm.ai/en/stable/usage/env_vars.html (Kubernetes "
        "set VLLM_PORT=tcp://169.169.193.120:6785 for a Service named vllm in the engine's namespace); rename that "
        "Service, or set enableServiceLinks: false on the pod",
    ),
    "killed while the weights were loading, without a word": (
        own("dies-loading.log"),
        137,
        "OOMKilled; its last line: Loading safetensors checkpoint shards: 40% Completed | 2/5 [00:09<00:13, 4.55s/it] "
        "(the engine was killed while the weights were loading: the node's memory does not hold them); take nodes with "
        "more memory than the weights take",
    ),
}


@pytest.fixture
def pair() -> Iterator[tuple[Api, Api]]:
    """A control plane with one replica that starts, and the workload cluster that runs it."""
    with serve() as control_plane, serve() as workload:
        starting = condition("ReplicasReady", "False", "ModelStarting", "0 of 1 ready")
        control_plane.put(
            "/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modeldeployments",
            {
                "metadata": {"name": "m", "namespace": "ml-team", "generation": 1},
                "spec": {"replicas": 1},
                "status": {"replicas": {"ready": 0, "total": 1}, "conditions": [starting]},
            },
        )
        made = {"name": "m-11111", "labels": {"modelplane.ai/deployment": "m"}, "creationTimestamp": START}
        control_plane.put(REPLICAS, {"metadata": made})
        yield control_plane, workload


START = "2026-11-30T00:01:00Z"
REPLICAS = "/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modelreplicas"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


def failure(pair: tuple[Api, Api], timeout: float = 120.0) -> str:
    """What `up` says."""
    control_plane, workload = pair
    given = {"kubeconfig": control_plane.kubeconfig, "workload_kubeconfig": workload.kubeconfig}
    with pytest.raises(GateError) as raised:
        ReplicasReady().create({**given, "namespace": "ml-team", "name": "m", "spec": "x"}, Clock().run(timeout))
    return str(raised.value)


def crashed(workload: Api, log: str, code: int, reason: str, restarts: int = 1) -> None:
    """A pod whose engine ended in this way."""
    status: dict[str, Any] = {
        "restartCount": restarts,
        "state": waiting("CrashLoopBackOff", "back-off"),
        "lastState": {"terminated": {"exitCode": code, "reason": reason}},
    }
    workload.put(PODS, pod("p", **status))
    workload.texts[f"{PODS}/p/log"] = log


@pytest.mark.parametrize("name", WORDS)
def test_a_known_end_is_said_at_its_first_time_with_cause_and_remedy(name: str, pair: tuple[Api, Api]) -> None:
    log, code, said = WORDS[name]
    crashed(pair[1], log, code, "OOMKilled" if code == 137 else "Error")
    assert failure(pair) == f"gave up on the replicas of ml-team/m: engine in pod p exits with code {code}: {said}"


def test_an_unknown_end_is_shown_whole_and_without_its_secrets(pair: tuple[Api, Api]) -> None:
    message = (
        "RuntimeError: something nobody has seen before with token hf_abcdefghijklmnopqrstuvwxyz",
        "For debugging consider passing ONE_THING=1",
        "or another; " + "and so on, " * 100,
    )
    crashed(pair[1], died(*message), 1, "Error", restarts=2)
    whole = " ".join(" ".join(message).replace("hf_abcdefghijklmnopqrstuvwxyz", "***").split())
    assert failure(pair) == (
        f"gave up on the replicas of ml-team/m: engine in pod p exits with code 1: {whole}; its log: `kubectl logs p "
        "-c engine --previous`"
    )


def test_a_kill_of_unknown_origin_gets_a_second_chance(pair: tuple[Api, Api]) -> None:
    crashed(pair[1], "INFO 03-02 09:15:01 [a.py:1] fine\n", 137, "Error", restarts=0)
    text = failure(pair, 4.0)
    assert text.startswith("waited 4 s in vain for the replicas of ml-team/m: ")
    assert "engine in pod p exits with code 137: Error; its last line: fine; 0 restarts so far" in text
    assert "known cause: the container was killed from outside (SIGKILL)" in text


REFUSED = [
    (
        'Error creating: pods "m-11111-e-x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=1',
        "(the namespace's ResourceQuota compute is used up); raise it, or delete other pods",
    ),
    (
        'Error creating: pods "m-11111-e-x" is forbidden: failed quota: compute: must specify limits.memory',
        "(the namespace's ResourceQuota compute refuses pods that do not say limits.memory); fill them in with a "
        "LimitRange, or remove the quota: Modelplane gives engine pods no requests or limits",
    ),
]


@pytest.mark.parametrize(("message", "end"), REFUSED)
def test_a_pod_that_a_quota_refuses_is_seen_although_there_is_none(
    pair: tuple[Api, Api], message: str, end: str
) -> None:
    pair[1].put(EVENTS, event("m-11111-e-abcde-7c9d", "FailedCreate", message, "2026-11-30T00:02:00Z"))
    assert failure(pair) == (
        f"gave up on the replicas of ml-team/m: no pod of ModelReplica m-11111: FailedCreate: {message} {end}"
    )


@pytest.mark.parametrize("time", ["2026-11-30T00:00:00Z", "2026-11-30T00:02:00Z"])
def test_a_refusal_of_before_is_none(pair: tuple[Api, Api], time: str) -> None:
    """Before the replica was made, or of another one."""
    name = "m-11111-e-abcde-7c9d" if time < START else "m-22222-e-abcde-7c9d"
    pair[1].put(EVENTS, event(name, "FailedCreate", REFUSED[0][0], time))
    assert "quota" not in failure(pair)


def endpoint(name: str, *conditions: Manifest) -> Manifest:
    return {"metadata": {"name": name, "labels": {"app": "m", "x": "y"}}, "status": {"conditions": list(conditions)}}


def test_an_endpoint_that_the_gateway_cannot_reach_ends_the_wait_for_the_service() -> None:
    refused = condition("Synced", "False", "ReconcileError", "Unsynced resources: endpointslice")
    with serve() as api:
        api.put(
            "/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modelservices",
            {
                "metadata": {"name": "m", "namespace": "ml-team"},
                "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "m"}}}]},
                "status": {"conditions": [condition("EndpointsResolved", "False", "NoEndpoints")]},
            },
        )
        api.put("/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modelendpoints", endpoint("m-11111", refused))
        given = {"kubeconfig": api.kubeconfig, "namespace": "ml-team", "name": "m", "model": "m", "spec": "x"}
        with pytest.raises(GateError) as raised:
            ServiceServing().create(given, Clock().run(120.0))
    assert str(raised.value) == (
        "gave up on ModelService ml-team/m: ModelEndpoint m-11111: Synced=False ReconcileError: Unsynced resources: "
        "endpointslice (the workload gateway's address is not one that an EndpointSlice may hold); give the gateway an "
        "address that is not loopback, or a host name"
    )
