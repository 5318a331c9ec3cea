"""The engine's pod as Modelplane v0.3.1 makes it: scheduled by its claim on the L4, run, ready, deleted."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest
from lightkube.codecs import from_dict
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Service
from lightkube.resources.resource_v1 import ResourceClaim

from sandbox.procfs import command, stats
from tests.sandbox.runner.conftest import Cluster, open_to_the_world, until

pytestmark = pytest.mark.sandbox

DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "gpu-1-l4"},
    "spec": {
        "driver": DRIVER,
        "nodeName": "gpu-1",
        "pool": {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "capacity": {"memory": {"value": "23034Mi"}}}],
    },
}
SELECTOR = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("20Gi")) >= 0'
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "devices"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": SELECTOR}}]},
                    }
                ]
            }
        }
    },
}


def deployment(**container: Any) -> dict[str, Any]:
    engine = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.23.0",
        "args": ["--model=Qwen/Qwen3-8B", "--served-model-name=qwen3-8b-spec", "--max-model-len=16384"],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": 8000},
            "initialDelaySeconds": 30,
            "timeoutSeconds": 5,
        },
        "resources": {"claims": [{"name": "devices"}]},
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
        **container,
    }
    pod = {
        "containers": [engine],
        "nodeSelector": {"modelplane.ai/pool": "gpu"},
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "devices"}],
        "tolerations": [{"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"}],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }
    template = {"metadata": {"labels": {"modelplane.ai/serving": "qwen"}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"modelplane.ai/serving": "qwen"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "engine"}, "spec": spec}


@pytest.fixture
def gpu(cluster: Cluster) -> Cluster:
    """The L4 of gpu-1, as its DRA driver publishes it."""
    for document in (DEVICE_CLASS, SLICE):
        cluster.client.apply(from_dict(document))
    cluster.create(TEMPLATE)
    return cluster


def available(cluster: Cluster) -> bool:
    status = cluster.client.get(Deployment, "engine", namespace=cluster.namespace).status
    return bool(status and status.availableReplicas == 1)


def test_the_engines_pod_gets_its_device_runs_and_answers_at_its_own_address_only(gpu: Cluster) -> None:
    gpu.create(deployment())
    until(lambda: available(gpu), seconds=40)
    (name,) = gpu.names()
    pod = gpu.pod(name)
    assert pod.spec is not None and pod.spec.nodeName == "gpu-1"
    (claim,) = gpu.client.list(ResourceClaim, namespace=gpu.namespace)
    assert claim.status is not None and claim.status.allocation is not None
    address = gpu.status(name)["podIP"]
    with urllib.request.urlopen(f"http://{address}:8000/v1/models", timeout=5) as answer:
        assert "qwen3-8b-spec" in answer.read().decode()
    assert open_to_the_world(8000) == []
    log = gpu.kubectl("logs", "-l", "modelplane.ai/serving=qwen", "--tail=-1")
    assert "version 0.23.0" in log
    gpu.client.delete(Deployment, "engine", namespace=gpu.namespace)
    until(lambda: gpu.names() == [] and list(gpu.client.list(ResourceClaim, namespace=gpu.namespace)) == [], seconds=40)
    assert not [item.pid for item in stats() if item.alive and address in command(item.pid)]


def test_an_engine_that_exits_at_its_start_crashes_and_its_last_words_are_in_the_log(gpu: Cluster) -> None:
    args = ["--model=Qwen/Qwen3-8B", '--speculative-config={"method": "ngram", "num_speculative_tokens": 0}']
    gpu.create(deployment(args=args))
    (name,) = until(gpu.names)
    until(lambda: "CrashLoopBackOff" in str(gpu.container(name).get("state")), seconds=40)
    assert gpu.container(name)["lastState"]["terminated"]["reason"] == "Error"
    assert "num_speculative_tokens" in gpu.kubectl("logs", name, "--previous")


def test_a_service_named_vllm_reaches_the_engines_environment(gpu: Cluster) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "vllm"}, "spec": {"ports": [{"port": 80}]}}
    gpu.create(service)
    address = gpu.client.get(Service, "vllm", namespace=gpu.namespace).spec.clusterIP  # type: ignore[union-attr]
    gpu.create(deployment(command=["sh", "-c", "echo VLLM_PORT=$VLLM_PORT; exec sleep 300"], readinessProbe=None))
    until(lambda: available(gpu), seconds=40)
    assert gpu.kubectl("logs", gpu.names()[0]) == f"VLLM_PORT=tcp://{address}:80\n"
