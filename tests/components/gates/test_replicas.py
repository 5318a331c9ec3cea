"""When replicas count as ready, what is said meanwhile, and what ends the wait at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.gates.kube import Kube
from components.gates.pods import Workload, judge_pods, look
from components.gates.replicas import ReplicasGone, ReplicasReady, judge
from components.gates.waiting import Done, Failed, GateError, Outcome, Waiting
from tests.components.gates.api import Api, Clock, serve
from tests.components.gates.objects import Manifest, condition, event, pod, waiting
from tests.modelplane.shared import golden, needs_upstream

CLAIMS = (
    "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/selector. "
    "still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
NO_CLAIM = condition("PodScheduled", "False", "Unschedulable", CLAIMS)
KV_CACHE = (
    "(EngineCore pid=1) ERROR [core.py:1] EngineCore failed to start.\n"
    "ValueError: To serve at least one request with the model's max seq len (16384), (2.25 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (1.70 GiB). Based on the available memory, the estimated "
    "maximum model length is 12368. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine.\n"
)


def deployment(ready: int, *conditions: Manifest, replicas: int = 1, total: int = 1, observed: int = 1) -> Manifest:
    synced = condition("Synced", "True", observedGeneration=observed)
    return {
        "metadata": {"name": "m", "namespace": "ml-team", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {"replicas": {"ready": ready, "total": total}, "conditions": [synced, *conditions]},
    }


def replica(name: str, **metadata: Any) -> Manifest:
    labels = {"modelplane.ai/deployment": "m"}
    return {"metadata": {"name": name, "uid": f"uid of {name}", "labels": labels, **metadata}}


def crashed(restarts: int, code: int = 1, reason: str = "Error") -> dict[str, Any]:
    ended = {"terminated": {"exitCode": code, "reason": reason}}
    return {
        "restartCount": restarts,
        "state": waiting("CrashLoopBackOff", "back-off"),
        "lastState": ended,
        "ready": False,
    }


PODS = [
    pytest.param(
        Workload((pod("p", ready=True, state={"running": {}}),)), Waiting(()), id="a ready pod waits for nothing"
    ),
    pytest.param(Workload((pod("p", "Pending"),)), Waiting(("pod p is Pending",)), id="a new pod"),
    pytest.param(
        Workload((pod("p", ready=False, state={"running": {}}),)),
        Waiting(("pod p is Running and not ready yet",)),
        id="an engine that loads",
    ),
    pytest.param(
        Workload((pod("p", "Pending", conditions=(NO_CLAIM,)),)),
        Failed(
            f"pod p is not scheduled: {CLAIMS} (no free device on any node satisfies the claim's selector)",
            "compare the recipe's selector with the ResourceSlices (kubectl get resourceslices -o yaml), and see "
            "whether another pod holds the device",
            30,
        ),
        id="E87: a claim that no device satisfies ends the wait early",
    ),
    pytest.param(
        Workload((pod("p", "Pending", conditions=(NO_CLAIM,)),), ending=("old",)),
        Waiting(("pod p is not scheduled while pod old is ending",)),
        id="the device of a replaced engine is given back when its pod has ended",
    ),
    pytest.param(
        Workload(
            (pod("p", "Pending", conditions=(condition("PodScheduled", "False", "Unschedulable", "something new"),)),)
        ),
        Waiting(("pod p is not scheduled: something new",)),
        id="an unknown reason is shown and waited for",
    ),
    pytest.param(
        Workload((pod("p", "Pending", state=waiting("ContainerCreating")),), (event("p", "FailedMount", "no volume"),)),
        Waiting(("pod p is Pending",), ("FailedMount: no volume",)),
        id="events come along",
    ),
    pytest.param(
        Workload((pod("p", **crashed(1)),), logs={"p": KV_CACHE}),
        Failed(
            "engine in pod p exits with code 1: ValueError: To serve at least one request with the model's max seq "
            "len (16384), (2.25 GiB KV cache is needed, which is larger than the available KV cache memory (1.70 "
            "GiB). Based on the available memory, the estimated maximum model length is 12368. Try increasing "
            "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine. (a context of "
            "16384 tokens needs 2.25 GiB of KV cache and 1.70 GiB are there)",
            "set --max-model-len to at most 12368",
        ),
        id="E89: an engine that cannot start is shown with its own last error, at its first exit",
    ),
    pytest.param(
        Workload((pod("p", **crashed(1)),), logs={"p": "Traceback\nRuntimeError: never seen before\n"}),
        Waiting(
            ("engine in pod p exits with code 1: RuntimeError: never seen before; 1 restarts so far",),
            remedy="its log: `kubectl logs p -c engine --previous`",
        ),
        id="an unknown exit gets a second chance",
    ),
    pytest.param(
        Workload((pod("p", **crashed(2)),), logs={"p": "Traceback\nRuntimeError: never seen before\n"}),
        Failed(
            "engine in pod p exits with code 1: RuntimeError: never seen before",
            "its log: `kubectl logs p -c engine --previous`",
        ),
        id="and no third",
    ),
    pytest.param(
        Workload((pod("p", **crashed(1, 137, "OOMKilled")),)),
        Failed(
            "engine in pod p exits with code 137: OOMKilled (the container was killed because the node ran out of "
            "memory)",
            "take nodes with more memory",
        ),
        id="killed for memory, without a word in the log",
    ),
]


@pytest.mark.parametrize(("workload", "expected"), PODS)
def test_what_pods_say(workload: Workload, expected: Outcome) -> None:
    assert judge_pods(workload) == expected


def test_no_token_of_a_log_is_shown() -> None:
    log = "ValueError: bad token hf_abcdefghijklmnopqrstuvwxyz0123456789\n"
    found = judge_pods(Workload((pod("p", **crashed(2)),), logs={"p": log}))
    assert isinstance(found, Failed)
    assert "hf_abc" not in found.cause
    assert "bad token" in found.cause


IMAGES = [
    ("ErrImagePull", "rpc error: pull access denied, repository does not exist", Failed),
    ("ImagePullBackOff", 'Back-off pulling image "nope:1"', Failed),
    ("ErrImagePull", "dial tcp: i/o timeout", Waiting),
    ("InvalidImageName", "couldn't parse image name", Failed),
    ("CreateContainerConfigError", 'secret "hugging-face" not found', Failed),
]


@pytest.mark.parametrize(("reason", "message", "kind"), IMAGES)
def test_a_rejected_image_or_secret_ends_the_wait_and_a_busy_registry_does_not(
    reason: str, message: str, kind: type
) -> None:
    found = judge_pods(Workload((pod("p", "Pending", state=waiting(reason, message)),)))
    assert isinstance(found, kind)
    text = found.cause if isinstance(found, Failed) else found.missing[0]
    assert text.startswith(f"pod p, image vllm/vllm-openai:v0.23.0: {reason}: {message}")


SCHEDULED = condition("ReplicasScheduled", "True", "ReplicasCreated", "Scheduled 1 of 2 replicas")
STARTING = condition("ReplicasReady", "False", "ModelStarting", "0 of 1 ready")
READY = condition("Ready", "True", "Available")

DEPLOYMENTS = [
    pytest.param(
        deployment(1),
        [replica("m-11111"), replica("m-22222", deletionTimestamp="2026-01-01T00:00:00Z")],
        Done({"replicas": ["m-11111"], "uids": ["uid of m-11111"]}),
        id="one that is going serves no more",
    ),
    pytest.param(
        deployment(1),
        [replica("m-22222"), replica("m-11111")],
        Done({"replicas": ["m-11111", "m-22222"], "uids": ["uid of m-11111", "uid of m-22222"]}),
        id="ready",
    ),
    pytest.param(
        deployment(0, SCHEDULED, STARTING, READY),
        [replica("m-11111")],
        Waiting(("0 of 1 replicas ready, 1 scheduled", "ReplicasReady is False (ModelStarting, 0 of 1 ready)")),
        id="Ready=True while the engine starts is not believed",
    ),
    pytest.param(
        deployment(1, SCHEDULED, READY, replicas=2),
        [replica("m-11111")],
        Waiting(("1 of 2 replicas ready, 1 scheduled", "ReplicasReady is not reported")),
        id="ReplicasScheduled=True with one of two scheduled is not believed (modelplane issue 437)",
    ),
    pytest.param(
        deployment(1, observed=0),
        [replica("m-11111")],
        Waiting(("the status is of generation 0, the spec of generation 1",)),
        id="a status older than the spec is not believed",
    ),
    pytest.param(
        deployment(
            0, condition("ReplicasScheduled", "False", "InvalidNodeSelector", "ERROR: undeclared reference"), total=0
        ),
        [],
        Failed(
            "InvalidNodeSelector: ERROR: undeclared reference (the deployment's device selector is not valid CEL)",
            "correct it: the condition's message has the compiler's error",
        ),
        id="a selector that does not compile",
    ),
    pytest.param(
        deployment(
            0,
            condition(
                "ReplicasScheduled", "False", "InsufficientCapacity", "0 of 1 replicas scheduled (checked 1 clusters)"
            ),
            total=0,
        ),
        [],
        Failed(
            "InsufficientCapacity: 0 of 1 replicas scheduled (checked 1 clusters) (no cluster has a ready pool with "
            "a free device that satisfies the selector)",
            "compare the recipe's selector with the InferenceClass, and see whether other replicas hold the nodes",
            90,
        ),
        id="nothing fits, once it lasts",
    ),
]


@pytest.mark.parametrize(("manifest", "replicas", "expected"), DEPLOYMENTS)
def test_when_replicas_are_ready(manifest: Manifest, replicas: list[Manifest], expected: Outcome) -> None:
    assert judge(manifest, replicas, Workload()) == expected


@needs_upstream
def test_modelplanes_own_ready_deployment_is_done() -> None:
    (ready,) = golden("control-plane.modeldeployments")
    (replica,) = golden("control-plane.modelreplicas")
    replica["metadata"]["uid"] = "1-2-3"  # the golden objects have none
    expected = Done({"replicas": ["qwen3-8b-spec-29b20"], "uids": ["1-2-3"]})
    assert judge(ready, [replica], Workload()) == expected


@pytest.fixture
def pair() -> Iterator[tuple[Api, Api]]:
    with serve() as control_plane, serve() as workload:
        yield control_plane, workload


DEPLOYMENTS_URL = "/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modeldeployments"
REPLICAS_URL = "/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modelreplicas"
PODS_URL = "/api/v1/namespaces/default/pods"


def inputs(control_plane: Api, workload: Api) -> dict[str, Any]:
    kubeconfigs = {"kubeconfig": control_plane.kubeconfig, "workload_kubeconfig": workload.kubeconfig}
    return {**kubeconfigs, "namespace": "ml-team", "name": "m", "spec": "x"}


def test_the_engines_own_error_reaches_the_user(pair: tuple[Api, Api]) -> None:
    control_plane, workload = pair
    control_plane.put(DEPLOYMENTS_URL, deployment(0, STARTING))
    control_plane.put(REPLICAS_URL, replica("m-11111"))
    workload.put(PODS_URL, pod("p", **crashed(1)))
    workload.texts[f"{PODS_URL}/p/log"] = KV_CACHE
    with pytest.raises(GateError) as raised:
        ReplicasReady().create(inputs(*pair), Clock().run())
    assert str(raised.value).startswith(
        "gave up on the replicas of ml-team/m: engine in pod p exits with code 1: ValueError: To serve"
    )
    assert str(raised.value).endswith("; set --max-model-len to at most 12368")


def test_only_the_pods_of_its_own_replicas_are_judged(pair: tuple[Api, Api]) -> None:
    _, workload = pair
    other = pod("other", **crashed(5))
    other["metadata"]["labels"] = {"modelplane.ai/serving": "n-99999"}
    workload.put(PODS_URL, pod("p", ready=True, state={"running": {}}), other)
    found = look(Kube(workload.kubeconfig), "default", "modelplane.ai/serving in (m-11111)")
    assert [one["metadata"]["name"] for one in found.pods] == ["p"]
    assert judge_pods(found) == Waiting(())


def test_destroy_waits_for_the_last_replica_and_the_last_pod(pair: tuple[Api, Api]) -> None:
    control_plane, workload = pair
    control_plane.put(REPLICAS_URL, replica("m-11111", finalizers=["composite.apiextensions.crossplane.io"]))
    stranger = pod("stranger")
    stranger["metadata"]["labels"] = {"modelplane.ai/serving": "m-other-11111"}
    workload.put(PODS_URL, pod("p"), stranger)
    with pytest.raises(GateError) as raised:
        ReplicasGone().delete(inputs(*pair), Clock().run())
    assert str(raised.value) == (
        "waited 60 s in vain for the end of the replicas of ml-team/m: ModelReplica m-11111 (held by "
        "composite.apiextensions.crossplane.io); pod p; `kubectl get "
        "modelreplicas,objects.kubernetes.m.crossplane.io -A` on the control plane shows what holds them"
    )
    control_plane.objects.clear()
    del workload.objects[f"{PODS_URL}/p"]
    ReplicasGone().delete(inputs(*pair), Clock().run())
