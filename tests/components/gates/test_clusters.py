"""Which pairs of clusters are refused before anything is made in them, and with which words."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from components.gates.clusters import (
    BROUGHT_TO_CONTROL_PLANE,
    BROUGHT_TO_WORKLOAD,
    XRDS,
    Clusters,
    leftovers,
    modelplane_problems,
    occupied,
)
from components.gates.nodes import no_node
from modelplane.kinds import KINDS
from tests.components.gates.api import Api, Clock, serve
from tests.components.gates.objects import GPU, SYSTEM, Manifest, condition


def xrd(name: str, generation: int = 1, observed: int = 1, status: str = "True") -> Manifest:
    established = condition("Established", status, "WatchingCompositeResource", observedGeneration=observed)
    return {"metadata": {"name": name, "generation": generation}, "status": {"conditions": [established]}}


def configuration(tag: str) -> Manifest:
    return {"metadata": {"name": "modelplane"}, "spec": {"package": f"xpkg.upbound.io/modelplane/modelplane:{tag}"}}


ALL = [xrd(name) for name in XRDS]
PACKAGE = "xpkg.upbound.io/modelplane/modelplane:v0.3.1"

MODELPLANE = [
    pytest.param(ALL, [configuration("v0.3.1")], [], id="v0.3.1"),
    pytest.param(ALL, [], [], id="without a Configuration its kinds decide"),
    pytest.param(
        None,
        [],
        [
            "the control plane has no Crossplane; install Crossplane 2.3.4 and Modelplane v0.3.1 on it "
            "(docs.modelplane.ai), or give another kubeconfig"
        ],
        id="no Crossplane",
    ),
    pytest.param(
        [],
        [],
        [f"the control plane lacks Modelplane; install the Configuration {PACKAGE} and wait until it is healthy"],
        id="no Modelplane",
    ),
    pytest.param(
        [one for one in ALL if "modelservices" not in one["metadata"]["name"]],
        [configuration("v0.3.1")],
        [
            "the control plane lacks modelservices.modelplane.ai of Modelplane; install the Configuration "
            f"{PACKAGE} and wait until it is healthy"
        ],
        id="one kind is missing",
    ),
    pytest.param(
        ALL,
        [configuration("v0.3.0")],
        [
            "the control plane has Modelplane v0.3.0: the API server rejects its ModelDeployment and ModelReplica "
            "schemas (a broken regular expression and a rule over the cost limit, Modelplane issue 399), so neither "
            f"kind exists although the Configuration says Healthy; upgrade its Configuration to {PACKAGE}"
        ],
        id="v0.3.0 is refused with its reason",
    ),
    pytest.param(
        ALL,
        [configuration("v0.1.0")],
        [
            "the control plane has Modelplane v0.1.0: this stack writes manifests of v0.3.1; upgrade its Configuration "
            f"to {PACKAGE}"
        ],
        id="an older release",
    ),
    pytest.param(
        [
            *(one for one in ALL if "modeldeployments" not in one["metadata"]["name"]),
            xrd("modeldeployments.modelplane.ai", 2, 1),
        ],
        [configuration("v0.3.1")],
        [
            "modeldeployments.modelplane.ai takes no objects yet: Established is of generation 1, the schema of "
            "generation 2 is not served; `kubectl describe xrd modeldeployments.modelplane.ai` on the control plane"
        ],
        id="Established=True of an older schema, as v0.3.0 leaves it on top of v0.3.1",
    ),
]


@pytest.mark.parametrize(("xrds", "configurations", "problems"), MODELPLANE)
def test_the_control_plane_needs_modelplane_established(
    xrds: list[Manifest] | None, configurations: list[Manifest], problems: list[str]
) -> None:
    assert modelplane_problems(xrds, configurations) == problems


def test_the_kinds_looked_for_are_those_of_the_typed_api() -> None:
    unused = {"modelcaches.modelplane.ai"}
    assert set(XRDS) == {kind.DEFINITION.crd_name for kind in KINDS.values()} - unused


def groups(*names: str) -> Manifest:
    return {"groups": [{"name": name, "versions": [{"version": "v1"}]} for name in names]}


OCCUPIED = [
    ("the control plane", BROUGHT_TO_CONTROL_PLANE, ["apps", "cert-manager.io"], ""),
    (
        "the control plane",
        BROUGHT_TO_CONTROL_PLANE,
        ["gateway.networking.k8s.io"],
        "the Gateway API (API group gateway.networking.k8s.io)",
    ),
    (
        "the workload cluster",
        BROUGHT_TO_WORKLOAD,
        ["monitoring.coreos.com", "cert-manager.io", "batch"],
        "cert-manager and the Prometheus operator (API group cert-manager.io, monitoring.coreos.com)",
    ),
]


@pytest.mark.parametrize(("which", "brought", "served", "found"), OCCUPIED)
def test_a_cluster_that_holds_what_modelplane_brings_is_refused(
    which: str, brought: dict[str, str], served: list[str], found: str
) -> None:
    expected = (
        [
            f"{which} already holds {found}, which Modelplane installs itself and does not adopt; use a cluster "
            "dedicated to Modelplane, or uninstall it and delete its CRDs"
        ]
        if found
        else []
    )
    assert occupied(which, groups(*served), brought) == expected


def test_only_crds_of_what_modelplane_brings_are_swept_on_destroy() -> None:
    crds = [
        "certificates.cert-manager.io",
        "envoyproxies.gateway.envoyproxy.io",
        "gateways.gateway.networking.k8s.io",
        "mine.example.com",
        "podmonitors.monitoring.coreos.com",
    ]
    assert leftovers(crds) == [crds[0], crds[1], crds[2], crds[4]]


@pytest.fixture
def pair() -> Iterator[tuple[Api, Api]]:
    """A control plane and a workload cluster that are fit."""
    with ExitStack() as stack:
        control_plane, workload = stack.enter_context(serve()), stack.enter_context(serve())
        for api in (control_plane, workload):
            api.objects["/apis"] = groups("apps", "resource.k8s.io")
        control_plane.put("/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions", *ALL)
        control_plane.put("/apis/pkg.crossplane.io/v1/configurations", configuration("v0.3.1"))
        workload.put("/api/v1/nodes", copy.deepcopy(GPU), SYSTEM)
        yield control_plane, workload


def inputs(control_plane: Api, workload: Api) -> dict[str, Any]:
    return {
        "control_plane_kubeconfig": control_plane.kubeconfig,
        "workload_kubeconfig": workload.kubeconfig,
        "control_plane_uid": "uid-a",
        "workload_uid": "uid-b",
        "node_pool": "gpu",
        "node_count": 1,
        "secrets": [],
    }


def test_a_fit_pair_passes(pair: tuple[Api, Api]) -> None:
    assert Clusters().problems(inputs(*pair), {}, {}) == []


def test_a_cluster_that_stops_answering_is_said(pair: tuple[Api, Api]) -> None:
    control_plane, _ = pair
    control_plane.refuse["/apis/pkg.crossplane.io/v1/configurations"] = 403
    assert Clusters().problems(inputs(*pair), {}, {}) == [
        f"the clusters cannot be checked: {control_plane.url} forbids what the stack needs: refused for the test"
    ]


def test_what_the_stack_itself_brought_is_no_reason_to_refuse_later(pair: tuple[Api, Api]) -> None:
    gate, given = Clusters(), inputs(*pair)
    for api in pair:
        api.objects["/apis"] = groups("resource.k8s.io", "gateway.networking.k8s.io", "cert-manager.io")
    assert len(gate.problems(given, {}, {})) == 2
    assert gate.problems(given, given, given) == []
    moved = {**given, "workload_kubeconfig": given["workload_kubeconfig"].replace("127.0.0.1", "before.example")}
    assert gate.problems(given, moved, moved) == [], "the address of a cluster may change"


def test_another_cluster_under_a_running_stack_is_refused(pair: tuple[Api, Api]) -> None:
    given = inputs(*pair)
    before = {**given, "workload_uid": "uid-before"}
    (problem,) = Clusters().problems(given, before, before)
    assert problem == (
        f"existing.workload: {pair[1].url} is not the cluster in which this stack was made; destroy the stack with "
        "the old kubeconfig first, or forget it with `pulumi stack rm --force`"
    )


def test_a_changed_declaration_of_the_pool_is_held_against_the_nodes(pair: tuple[Api, Api]) -> None:
    given = inputs(*pair)
    warned: list[str] = []
    assert Clusters().problems({**given, "node_count": 2}, given, {}, warned.append) == []
    assert warned == [
        "platform.nodePool.nodeCount: 2: nodes that carry modelplane.ai/pool=gpu: 1; Modelplane schedules by the "
        "declared number alone; set it to 1, unless the pool scales up"
    ]


def test_a_pool_that_has_no_node_yet_is_a_warning(pair: tuple[Api, Api]) -> None:
    _, workload = pair
    del workload.objects["/api/v1/nodes/gpu-1"]
    warned: list[str] = []
    assert Clusters().problems(inputs(*pair), {}, {}, warned.append) == []
    assert warned == [no_node("gpu")]


def test_all_that_keeps_an_engine_out_is_said_before_anything_is_made(pair: tuple[Api, Api]) -> None:
    _, workload = pair
    workload.objects["/apis"] = {"groups": [{"name": "resource.k8s.io", "versions": [{"version": "v1beta1"}]}]}
    workload.objects["/api/v1/nodes/gpu-1"]["status"] = {"nodeInfo": {"kubeletVersion": "v1.34.1-gke.1829001"}}
    workload.put("/api/v1/namespaces/default/services", {"metadata": {"name": "vllm"}})
    given = {**inputs(*pair), "secrets": [{"name": "registry", "key": ""}]}
    assert Clusters().problems(given, {}, {}) == [
        "the workload cluster serves no resource.k8s.io/v1 (only v1beta1), so no GPU can be claimed; use "
        "Kubernetes 1.35 or newer",
        "GPU node gpu-1 has kubelet v1.34.1-gke.1829001: before 1.34.2 a pod that claims a GPU after half an hour "
        "without one never starts (kubernetes issue 133926); upgrade the node pool to 1.35",
        "Service default/vllm on the workload cluster makes Kubernetes set VLLM_PORT to its address in every "
        "engine pod, and vLLM refuses to start with it (vLLM issue 34199); rename that Service",
        "Secret default/registry, which the recipe names, is not there, so engine pods would not start; make it "
        "in namespace default of the workload cluster, or have this stack make it (speculation:secrets)",
    ]


@pytest.mark.parametrize("plural", ["services", "resourcequotas", "limitranges", "pods"])
def test_what_may_not_be_read_is_a_warning_and_never_a_yes_in_silence(pair: tuple[Api, Api], plural: str) -> None:
    _, workload = pair
    workload.refuse[f"/api/v1/namespaces/default/{plural}"] = 403
    warned: list[str] = []
    assert Clusters().problems(inputs(*pair), {}, {}, warned.append) == []
    (line,) = warned
    assert "of the workload cluster are not checked: " in line
    assert "forbids what the stack needs" in line


def test_destroy_sweeps_the_serving_stacks_crds_and_says_when_it_cannot(pair: tuple[Api, Api]) -> None:
    _, workload = pair
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    workload.put(
        crds, {"metadata": {"name": "gateways.gateway.networking.k8s.io"}}, {"metadata": {"name": "mine.example.com"}}
    )
    clock = Clock()
    Clusters().delete(inputs(*pair), clock.run())
    assert [key for key in workload.objects if key.startswith(crds)] == [f"{crds}/mine.example.com"]
    workload.refuse[crds] = 403
    Clusters().delete(inputs(*pair), clock.run())
    assert clock.warned == [
        f"CRDs of the serving stack may be left on the workload cluster: {workload.url} forbids what the stack "
        "needs: refused for the test"
    ]
