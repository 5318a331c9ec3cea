"""The device gate: what counts as a GPU, all that would keep an engine out at once, and why a driver publishes none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from components.gates import device, driver
from components.gates.pods import Workload
from components.gates.preflight import Surroundings
from components.gates.waiting import Done, Failed, GateError, Outcome, Waiting
from sandbox.functions.dra import device_class, resource_slice
from tests.components.gates.api import Api, Clock, serve
from tests.components.gates.objects import GPU, SYSTEM, Manifest, condition, event, labelled, node, pod, waiting
from tests.components.gates.objects import device as a_device
from tests.components.gates.objects import resource_slice as a_slice

SELECTOR = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0'
L4 = [{"name": "gpu", "count": 1, "selectors": [SELECTOR]}]
AROUND = Surroundings(nodes=(GPU, SYSTEM))
CLASS = device_class()
NO_PLUGIN = "the DRA driver's plugin does not run on the GPU nodes, or finds no NVIDIA driver there"
NO_CLASS = "DeviceClass gpu.nvidia.com, which the DRA driver's chart brings"
CHANNEL = {
    "metadata": {"name": "channels"},
    "spec": {
        "driver": "compute-domain.nvidia.com",
        "nodeName": "gpu-1",
        "pool": {"name": "gpu-1"},
        "devices": [{"name": "channel-0", "attributes": {"type": {"string": "channel"}}}],
    },
}
UNFIT = (
    "device request gpu needs 1 on one node, and no published device fits: gpu-1/gpu-0 (Tesla T4): memory is 15360Mi, "
    "wanted >= 20Gi; change the selector in the recipe, or add a node with such a GPU"
)
ANOTHER = labelled(node("gpu-9"), **{"modelplane.ai/pool": "another", "nvidia.com/gpu.present": "true"})


def inputs(kubeconfig: str = "", **changed: Any) -> dict[str, Any]:
    given = {"device_class": "gpu.nvidia.com", "requests": L4, "node_pool": "gpu", "secrets": []}
    return {"kubeconfig": kubeconfig, **given, **changed}


DEVICES = [
    pytest.param(
        [resource_slice("gpu-1")],
        CLASS,
        AROUND,
        Done({"devices": ["gpu-1/gpu-0: NVIDIA L4, 23034Mi"]}),
        id="an L4 as the driver publishes it",
    ),
    pytest.param(
        [resource_slice("gpu-1")], None, AROUND, Waiting((NO_CLASS,), remedy=driver.LOOK), id="no DeviceClass"
    ),
    pytest.param(
        [],
        None,
        AROUND,
        Waiting(
            ("no ResourceSlice for gpu.nvidia.com: the DRA driver has published nothing", NO_CLASS),
            (),
            NO_PLUGIN,
            driver.LOOK,
        ),
        id="E80: nothing is published, and the class is missing too",
    ),
    pytest.param(
        [a_slice("gpu-1")],
        CLASS,
        AROUND,
        Waiting(
            ("no ResourceSlice for gpu.nvidia.com has a device: those of gpu-1 are empty, the driver found no GPU",),
            (),
            NO_PLUGIN,
            driver.LOOK,
        ),
        id="E85: a slice without devices is no GPU",
    ),
    pytest.param(
        [CHANNEL],
        CLASS,
        AROUND,
        Waiting(
            (
                "no ResourceSlice for gpu.nvidia.com: the published devices are of compute-domain.nvidia.com and of "
                "another class",
            ),
            (),
            NO_PLUGIN,
            driver.LOOK,
        ),
        id="devices of another class are no GPUs",
    ),
    pytest.param(
        [resource_slice("gpu-9")],
        CLASS,
        Surroundings(nodes=(GPU, SYSTEM, ANOTHER)),
        Waiting(
            ("no ResourceSlice for gpu.nvidia.com on a node of the pool gpu: the devices are on gpu-9",),
            (),
            NO_PLUGIN,
            driver.LOOK,
        ),
        id="a GPU outside the pool is out of the engines' reach",
    ),
    pytest.param(
        [resource_slice("gpu-1")],
        CLASS,
        Surroundings(nodes=(SYSTEM,)),
        Waiting(
            (
                "no ResourceSlice for gpu.nvidia.com on a node of the pool gpu: the devices are on gpu-1",
                "no node of the workload cluster carries modelplane.ai/pool=gpu, so engine pods would stay Pending "
                "until one does; `kubectl label node GPU_NODE modelplane.ai/pool=gpu nvidia.com/gpu.present=true`, or "
                "give the pool a minimum of 1 node",
            ),
            (),
            NO_PLUGIN,
            driver.LOOK,
        ),
        id="the slice of a node that is gone is no GPU, and a pool without nodes is waited for",
    ),
    pytest.param(
        [a_slice("gpu-1", a_device(memory="15360Mi", product="Tesla T4"))],
        None,
        AROUND,
        Failed(UNFIT, settle=60.0),
        id="a smaller GPU than the recipe asks for",
    ),
    pytest.param(
        [a_slice("gpu-1", a_device(memory="15360Mi", product="Tesla T4"))],
        None,
        Surroundings(nodes=(GPU, SYSTEM), fatal_service=True, absent=("Secret default/registry is not there",)),
        Failed(
            "Service default/vllm on the workload cluster makes Kubernetes set VLLM_PORT to its address in every "
            "engine pod, and vLLM refuses to start with it (vLLM issue 34199); rename that Service",
            settle=60.0,
            also=(
                "Secret default/registry is not there, so engine pods would not start; make it in namespace default "
                "of the workload cluster, or have this stack make it (speculation:secrets)",
                UNFIT,
            ),
        ),
        id="E95: all failures at once",
    ),
]


@pytest.mark.parametrize(("slices", "device_class", "around", "expected"), DEVICES)
def test_when_a_device_is_there(
    slices: list[Manifest], device_class: Manifest | None, around: Surroundings, expected: Outcome
) -> None:
    assert device.judge(slices, device_class, around, inputs()) == expected


def test_a_selector_that_does_not_compile_is_said_at_once() -> None:
    requests = [{"name": "gpu", "count": 1, "selectors": ["device.capacity["]}]
    found = device.judge([resource_slice("gpu-1")], CLASS, AROUND, inputs(requests=requests))
    assert isinstance(found, Failed)
    assert found.cause.startswith("a device selector is not valid CEL (")


# What chart version 0.4 calls its DaemonSet's pods and init container.
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
QUOTA = (
    "Error creating: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical "
    "system-cluster-critical]}]"
)
NO_DRIVER = (
    "2026-04-19T13:55:41Z  /driver-root (/home/kubernetes/bin/nvidia/ on host): nvidia-smi: not found, "
    "libnvidia-ml.so.1: not found, current contents: [].\n\nCheck failed. Has the NVIDIA GPU driver been set up? It is "
    "expected to be installed under NVIDIA_DRIVER_ROOT (currently set to '/home/kubernetes/bin/nvidia/') in the host "
    "filesystem. If that path appears to be unexpected: review the DRA driver's 'nvidiaDriverRoot' Helm chart "
    "variable.\n"
)


def daemon_set(wanted: int, present: int) -> Manifest:
    status = {"desiredNumberScheduled": wanted, "currentNumberScheduled": present}
    return {"metadata": {"name": PLUGIN}, "status": status}


DRIVERS = [
    pytest.param(
        [],
        Workload(),
        "",
        Waiting(("no DaemonSet in namespace dra-driver-nvidia-gpu: the serving stack has not installed the driver",)),
        id="not installed yet",
    ),
    pytest.param(
        [daemon_set(0, 0)],
        Workload(),
        "",
        Waiting(
            (f"DaemonSet {PLUGIN} wants no pod on any node",),
            cause="no node has a label by which the driver finds NVIDIA hardware, or its taint is not tolerated",
            remedy=driver.LABELS,
        ),
        id="no node has the driver's label",
    ),
    pytest.param(
        [daemon_set(1, 0)],
        Workload(events=(event(PLUGIN, "FailedCreate", QUOTA),)),
        "",
        Failed(
            f"DaemonSet {PLUGIN} has 0 of 1 pods: FailedCreate: {QUOTA} (pods of a critical priority are refused "
            "outside kube-system without a ResourceQuota for them)",
            "create a ResourceQuota with scopeSelector PriorityClass In [system-node-critical, "
            "system-cluster-critical] in that namespace",
            90,
        ),
        id="E80: pods of a critical priority are refused without a quota (modelplane issue 202)",
    ),
    pytest.param(
        [daemon_set(1, 1)],
        Workload((pod("p", "Pending", state=waiting("PodInitializing")),), (event(PLUGIN, "FailedCreate", QUOTA),)),
        NO_DRIVER,
        Waiting(
            ("pod p is Pending", "the driver's init container waits"),
            cause="the DRA driver finds no NVIDIA driver under /home/kubernetes/bin/nvidia/ of the node",
            remedy="install the NVIDIA driver on the GPU nodes, or set nvidiaDriverRoot of the ServingStack to where "
            "it is (/home/kubernetes/bin/nvidia on GKE)",
        ),
        id="E85: the driver is not where the DRA driver looks (dra-driver-nvidia-gpu issue 1008); an old event is over",
    ),
    pytest.param(
        [daemon_set(1, 1)],
        Workload((pod("p", "Pending", state=waiting("ImagePullBackOff", 'Back-off pulling image "x"')),)),
        "",
        Failed(
            'pod p, image vllm/vllm-openai:v0.23.0: ImagePullBackOff: Back-off pulling image "x" (the image cannot '
            "be pulled)",
            "check its name, tag and pull Secret",
            45,
        ),
        id="its image cannot be pulled",
    ),
]


@pytest.mark.parametrize(("sets", "workload", "init_log", "expected"), DRIVERS)
def test_why_a_driver_publishes_nothing(
    sets: list[Manifest], workload: Workload, init_log: str, expected: Outcome
) -> None:
    assert driver.judge(sets, workload, init_log) == expected


@pytest.fixture
def api() -> Iterator[Api]:
    """A workload cluster whose serving stack is there; the DRA driver has published nothing."""
    with serve() as running:
        running.put("/api/v1/nodes", GPU, SYSTEM)
        yield running


NAMESPACE = "/api/v1/namespaces/dra-driver-nvidia-gpu"
SETS = "/apis/apps/v1/namespaces/dra-driver-nvidia-gpu/daemonsets"


def test_e80_a_refused_driver_ends_the_wait_with_its_event(api: Api) -> None:
    api.put(SETS, daemon_set(1, 0))
    api.put(f"{NAMESPACE}/events", event(PLUGIN, "FailedCreate", QUOTA))
    with pytest.raises(GateError) as raised:
        device.Device().create(inputs(api.kubeconfig), Clock().run(600.0))
    text = str(raised.value)
    assert text.startswith(
        f"gave up on a node that can run the engine: DaemonSet {PLUGIN} has 0 of 1 pods: FailedCreate: {QUOTA}"
    )


def test_e85_the_words_of_the_drivers_init_container_reach_the_user(api: Api) -> None:
    api.put(SETS, daemon_set(1, 1))
    init = pod("p", "Pending", state=waiting("PodInitializing"))
    init["status"]["initContainerStatuses"] = [{"name": "init-container", "state": {"running": {}}}]
    api.put(f"{NAMESPACE}/pods", init)
    api.texts[f"{NAMESPACE}/pods/p/log"] = NO_DRIVER
    api.put("/apis/resource.k8s.io/v1/resourceslices", a_slice("gpu-1"))
    with pytest.raises(GateError) as raised:
        device.Device().create(inputs(api.kubeconfig), Clock().run(4.0))
    text = str(raised.value)
    assert "those of gpu-1 are empty, the driver found no GPU" in text
    assert "known cause: the DRA driver finds no NVIDIA driver under /home/kubernetes/bin/nvidia/ of the node" in text


def test_all_that_keeps_an_engine_out_is_said_at_once_and_a_line_each(api: Api) -> None:
    api.put("/apis/resource.k8s.io/v1/resourceslices", a_slice("gpu-1", a_device(memory="15360Mi", product="T4")))
    api.put("/apis/resource.k8s.io/v1/deviceclasses", CLASS)
    api.put("/api/v1/namespaces/default/services", {"metadata": {"name": "vllm"}})
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.memory": "8Gi"}}}
    api.put("/api/v1/namespaces/default/resourcequotas", quota)
    with pytest.raises(GateError) as raised:
        device.Device().create(inputs(api.kubeconfig, secrets=[{"name": "registry", "key": ""}]), Clock().run(600.0))
    lines = str(raised.value).split("\n")
    assert [line.split(",")[0].split(" (")[0] for line in lines] == [
        "gave up on a node that can run the engine: ResourceQuota default/q limits limits.memory",
        "Service default/vllm on the workload cluster makes Kubernetes set VLLM_PORT to its address in every engine "
        "pod",
        "Secret default/registry",
        "device request gpu needs 1 on one node",
    ]


def test_what_heals_within_a_minute_is_waited_for(api: Api) -> None:
    api.put("/apis/resource.k8s.io/v1/deviceclasses", CLASS)
    api.put("/apis/resource.k8s.io/v1/resourceslices", a_slice("gpu-1", a_device(memory="1Gi")))
    clock = Clock()

    def heal(line: str) -> None:
        api.put("/apis/resource.k8s.io/v1/resourceslices", a_slice("gpu-1", a_device()))

    run = replace(clock.run(600.0), say=heal)
    assert device.Device().create(inputs(api.kubeconfig), run) == {"devices": ["gpu-1/gpu-0: NVIDIA L4, 23034Mi"]}
    assert 0 < clock.now < device.SETTLE_SECONDS


def test_an_unschedulable_driver_is_told_with_its_reason() -> None:
    message = "0/1 nodes are available: 1 node(s) had untolerated taint {team: x}."
    lonely = pod("p", "Pending", conditions=(condition("PodScheduled", "False", "Unschedulable", message),))
    found = driver.judge([daemon_set(1, 1)], Workload((lonely,)))
    assert isinstance(found, Waiting)
    assert found.missing == (f"pod p is not scheduled: {message}",)
