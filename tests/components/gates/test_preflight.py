"""What of the workload cluster keeps engines out: nodes, quotas, Secrets, a Service of the wrong name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.gates.kube import Kube
from components.gates.nodes import no_node, node_problems, node_warnings
from components.gates.preflight import Surroundings, survey
from components.gates.quota import quota_problems
from tests.components.gates.api import Api, serve
from tests.components.gates.objects import GPU, SYSTEM, Manifest, labelled, node, pod

POOL = {"modelplane.ai/pool": "gpu", "nvidia.com/gpu.present": "true"}


def gpu(*taints: str, kubelet: str = "v1.35.2", **labels: str) -> Manifest:
    found = labelled(node("gpu-1", *taints), **(labels or POOL))
    return {**found, "status": {"nodeInfo": {"kubeletVersion": kubelet}}}


NODES = [
    pytest.param([GPU, SYSTEM], [], id="a GPU node and a system node"),
    pytest.param([gpu()], [], id="one untainted node is both"),
    pytest.param([node("a"), node("b")], [], id="no node of the pool is no fault by itself"),
    pytest.param([], [], id="no node at all"),
    pytest.param(
        [gpu("nvidia.com/gpu:NoSchedule", **{"modelplane.ai/pool": "gpu", "cloud.google.com/gke-gpu": "true"}), SYSTEM],
        [
            "GPU node gpu-1 has no label by which the DRA driver finds NVIDIA hardware, so no GPU would be published; "
            "`kubectl label node gpu-1 nvidia.com/gpu.present=true`"
        ],
        id="E82: a GKE L4 node without the label that the DRA driver looks for",
    ),
    pytest.param(
        [gpu("nvidia.com/gpu:NoSchedule", "team:NoExecute"), SYSTEM],
        [
            "GPU node gpu-1 has the taint team:NoExecute, but engine pods tolerate only nvidia.com/gpu:NoSchedule; "
            "remove it"
        ],
        id="a taint that no engine tolerates",
    ),
    pytest.param(
        [gpu("nvidia.com/gpu:NoExecute"), SYSTEM],
        [
            "GPU node gpu-1 has the taint nvidia.com/gpu:NoExecute, but engine pods tolerate only "
            "nvidia.com/gpu:NoSchedule; remove it"
        ],
        id="the right taint with the wrong effect",
    ),
    pytest.param(
        [gpu("team:PreferNoSchedule"), node("system-1", "dedicated:PreferNoSchedule")],
        [],
        id="a taint that only prefers keeps nobody away",
    ),
    pytest.param(
        [GPU, node("system-1", "dedicated:NoSchedule")],
        [
            "every node of the workload cluster is tainted, but the endpoint picker, Envoy, cert-manager and "
            "Prometheus tolerate nothing; add a node without taints"
        ],
        id="no node without taints",
    ),
    pytest.param(
        [
            gpu(
                "nvidia.com/gpu:NoSchedule",
                "node.kubernetes.io/not-ready:NoExecute",
                "node.cilium.io/agent-not-ready:NoSchedule",
            ),
            node("system-1", "ToBeDeletedByClusterAutoscaler:NoSchedule"),
        ],
        [],
        id="taints of the moment are no reason",
    ),
    pytest.param(
        [gpu(kubelet="v1.33.5-eks-113cf36"), SYSTEM],
        [
            "GPU node gpu-1 has kubelet v1.33.5-eks-113cf36: before 1.34.2 a pod that claims a GPU after half an hour "
            "without one never starts (kubernetes issue 133926); upgrade the node pool to 1.35"
        ],
        id="a kubelet that deadlocks",
    ),
    pytest.param([gpu(kubelet="v1.34.2"), SYSTEM], [], id="the first kubelet that does not"),
]


@pytest.mark.parametrize(("nodes", "problems"), NODES)
def test_the_nodes_must_let_engines_and_the_serving_stack_in(nodes: list[Manifest], problems: list[str]) -> None:
    assert node_problems(nodes, "gpu") == problems


WARNINGS = [
    pytest.param([GPU, SYSTEM], 1, [], id="as declared"),
    pytest.param([SYSTEM], 1, [no_node("gpu")], id="an autoscaler may bring the first node"),
    pytest.param(
        [GPU, {**gpu(), "metadata": {"name": "gpu-2", "labels": POOL}}],
        1,
        [
            "platform.nodePool.nodeCount: 1: nodes that carry modelplane.ai/pool=gpu: 2; Modelplane schedules by the "
            "declared number alone; set it to 2"
        ],
        id="more nodes than declared",
    ),
    pytest.param(
        [gpu(kubelet="v1.34.4-gke.100")],
        1,
        ["GPU node gpu-1 has kubelet v1.34.4-gke.100, older than Modelplane's floor; upgrade the node pool to 1.35"],
        id="a kubelet that works and is old",
    ),
    pytest.param(
        [gpu(kubelet="fake")],
        1,
        ["GPU node gpu-1 does not tell its kubelet's version (fake); it must be 1.34.2 or newer"],
        id="a kubelet of an unknown version",
    ),
]


@pytest.mark.parametrize(("nodes", "count", "warnings"), WARNINGS)
def test_what_may_still_come_right_is_a_warning(nodes: list[Manifest], count: int, warnings: list[str]) -> None:
    assert node_warnings(nodes, "gpu", count) == warnings


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Manifest:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": {"used": used or {}}}


def limits(**item: dict[str, str]) -> Manifest:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}, {"type": "Pod"}]}}


def scoped(scope: str, operator: str) -> dict[str, Any]:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": ["high"]}]}}


UNSAID = (
    "so engine pods are refused: Modelplane gives them no requests or limits; remove it, or fill them in with a "
    "LimitRange"
)
USED_UP = "so the engine or its endpoint picker is refused; raise it, or delete what uses it"

QUOTAS = [
    pytest.param(quota({"pods": "10"}, {"pods": "8"}), [], [], id="room for an engine and its picker"),
    pytest.param(
        quota({"pods": "10"}, {"pods": "9"}),
        [],
        [f"ResourceQuota default/q has 9 of 10 pods used, {USED_UP}"],
        id="room for one of the two",
    ),
    pytest.param(
        quota({"count/deployments.apps": "0", "count/secrets": "0"}),
        [],
        [f"ResourceQuota default/q has 0 of 0 count/deployments.apps used, {USED_UP}"],
        id="no Deployments; what no engine needs is not looked at",
    ),
    pytest.param(
        quota({"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "0"}),
        [],
        [f"ResourceQuota default/q has 0 of 0 gpu.nvidia.com.deviceclass.resource.k8s.io/devices used, {USED_UP}"],
        id="no devices",
    ),
    pytest.param(
        quota({"requests.cpu": "8", "limits.memory": "64Gi", "ephemeral-storage": "1Gi"}),
        [],
        [f"ResourceQuota default/q limits limits.memory, requests.cpu, {UNSAID}"],
        id="what an engine pod does not say is refused",
    ),
    pytest.param(
        quota({"requests.cpu": "8", "limits.memory": "64Gi"}, {"requests.cpu": "1"}),
        [limits(default={"cpu": "2", "memory": "24Gi"})],
        [],
        id="a LimitRange says it for the pod",
    ),
    pytest.param(
        quota({"requests.memory": "40Gi"}, {"requests.memory": "8Gi"}),
        [limits(defaultRequest={"memory": "24Gi"})],
        [f"ResourceQuota default/q has 8Gi of 40Gi requests.memory used, {USED_UP}"],
        id="and says more than there is",
    ),
    pytest.param(quota({"pods": "0"}, scopes=["BestEffort", "NotTerminating"]), [],
                 [f"ResourceQuota default/q has 0 of 0 pods used, {USED_UP}"], id="scopes that engine pods are in"),
    pytest.param(quota({"pods": "0"}, scopes=["NotBestEffort"]), [], [], id="a scope that they are not in"),
    pytest.param(quota({"pods": "0"}, scopes=["Terminating"]), [], [], id="pods with a deadline"),
    pytest.param(quota({"pods": "0"}, **scoped("PriorityClass", "In")), [], [], id="pods of a priority"),
    pytest.param(quota({"pods": "0"}, **scoped("BestEffort", "Exists")), [],
                 [f"ResourceQuota default/q has 0 of 0 pods used, {USED_UP}"], id="the same scope, selected"),
    pytest.param(quota({"pods": "many"}), [], [], id="a number that cannot be read is no reason"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "ranges", "problems"), QUOTAS)
def test_a_quota_that_keeps_engines_out(given: Manifest, ranges: list[Manifest], problems: list[str]) -> None:
    assert quota_problems([given], ranges, device_class="gpu.nvidia.com") == problems


def test_what_running_engines_use_is_theirs_to_give_back() -> None:
    full = quota({"pods": "2", "limits.cpu": "4"}, {"pods": "2"})
    assert quota_problems([full], [], running=True) == [f"ResourceQuota default/q limits limits.cpu, {UNSAID}"]


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as running:
        running.put("/api/v1/nodes", GPU, SYSTEM)
        yield running


SECRETS = "/api/v1/namespaces/default/secrets"


def test_secrets_that_a_recipe_reads_must_be_there_with_their_keys(api: Api) -> None:
    api.put(SECRETS, {"metadata": {"name": "registry"}}, {"metadata": {"name": "token"}, "data": {"other": "eA=="}})
    api.refuse[f"{SECRETS}/hidden"] = 403
    wanted = [
        {"name": "registry", "key": ""},
        {"name": "token", "key": "other"},
        {"name": "token", "key": "token"},
        {"name": "absent", "key": ""},
        {"name": "hidden", "key": ""},
    ]
    found = survey(Kube(api.kubeconfig), wanted)
    assert found.absent == (
        "Secret default/token has no key token, which the recipe reads",
        "Secret default/absent, which the recipe names, is not there",
    )
    assert found.warnings("gpu", 1) == [
        f"Secret hidden of the workload cluster is not checked: {api.url} forbids what the stack needs: refused for "
        "the test"
    ]


def test_e95_only_the_name_that_sets_vllm_port_is_fatal(api: Api) -> None:
    api.put("/api/v1/namespaces/default/services", {"metadata": {"name": "vllm-qwen"}})
    assert survey(Kube(api.kubeconfig), []).problems("gpu") == []
    api.put("/api/v1/namespaces/default/services", {"metadata": {"name": "vllm"}})
    (line,) = survey(Kube(api.kubeconfig), []).problems("gpu")
    assert line.startswith("Service default/vllm on the workload cluster makes Kubernetes set VLLM_PORT")


def test_engines_that_run_are_seen(api: Api) -> None:
    assert survey(Kube(api.kubeconfig), []) == Surroundings(nodes=(GPU, SYSTEM))
    api.put("/api/v1/namespaces/default/pods", pod("p"))
    assert survey(Kube(api.kubeconfig), []).engines
