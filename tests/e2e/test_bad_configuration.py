"""What is wrong with the configuration or the clusters is said by `preview`, a line each, before anything is made."""

# ruff: noqa: E501 - the lines stand as they are printed

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.clusters import inventory
from tests.e2e.stack import Stack, container_of, recipe_of
from tests.e2e.workplace import Workplace
from tests.sandbox.kubectl import Kubectl

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(200)]

ENGINE = (
    "ModelDeployment/ml-team/qwen3-8b-spec: spec.template.spec.engines[0].members[0].template.spec.containers[0].args"
)
CHECK = "error: speculation:gates:Clusters resource 'clusters-check' has a problem"
LOOK = "check the kubeconfig with `kubectl --kubeconfig FILE get nodes`"
V030 = (
    "the API server rejects its ModelDeployment and ModelReplica schemas (a broken regular expression and a rule over "
    "the cost limit, Modelplane issue 399), so neither kind exists although the Configuration says Healthy"
)


@pytest.fixture(autouse=True, scope="module")
def nothing_is_made(stack: Stack, place: Workplace, untouched: set[str]) -> Iterator[None]:
    """Refusals change neither the clusters nor the state."""
    stack.destroy()
    state = stack.exported()
    yield
    assert inventory(place.layout) == untouched
    assert stack.exported() == state


def test_every_mistake_of_a_recipe_is_said_at_once(stack: Stack, place: Workplace) -> None:
    recipe = recipe_of(place)
    engine = container_of(recipe)
    config = {"method": "ngram", "num_speculative_tokens": 0, "prompt_lookup_min": 4, "prompt_lookup_max": 2, "n": 1}
    engine["args"] = [arg for arg in engine["args"] if not arg.startswith(("--speculative-config", "--max-model-len"))]
    engine["args"] += [f"--speculative-config={json.dumps(config)}", "--max-model-len=100000"]
    stack.configure(recipe)
    assert stack.failing_preview().errors == [
        f"error: {ENGINE}: --speculative-config: n: 1: unknown key; vLLM 0.23.0 would not start; remove it",
        f"error: {ENGINE}: --speculative-config: num_speculative_tokens: 0: it must be at least 1; vLLM would not start; give 1 or more, or remove the config",
        f"error: {ENGINE}: --speculative-config: prompt_lookup_min: 4: it must be <= prompt_lookup_max=2; vLLM would not start; swap the two, or lower it",
        f"error: {ENGINE}: --max-model-len: 100000: Qwen/Qwen3-8B has a context of 40960 tokens; vLLM would not start; use at most 40960",
    ]


def test_a_speculative_config_given_twice_is_said(stack: Stack, place: Workplace) -> None:
    """Which of the two is meant is not guessed: neither is judged."""
    recipe = recipe_of(place)
    engine = container_of(recipe)
    (given,) = (arg for arg in engine["args"] if arg.startswith("--speculative-config="))
    engine["args"].append('--speculative-config={"method": "ngram", "num_speculative_tokens": 0}')
    stack.configure(recipe)
    shown = f"{given.partition('=')[2]} and {{"
    (line,) = stack.failing_preview().errors
    assert line.startswith(f"error: {ENGINE}: --speculative-config: {shown}")
    assert line.endswith(": it is given 2 times; vLLM would keep only the last; keep one --speculative-config=JSON")


def test_a_selector_that_no_device_satisfies_is_said(stack: Stack, place: Workplace) -> None:
    recipe = recipe_of(place)
    member = recipe[0]["spec"]["template"]["spec"]["engines"][0]["members"][0]
    selector = member["nodeSelector"]["devices"][0]["selectors"][0]
    selector["cel"] = selector["cel"].replace("20Gi", "24Gi")
    stack.configure(recipe)
    assert stack.failing_preview().errors == [
        'error: recipe trial: device request gpu: device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("24Gi")) >= 0: no GPU of this stack satisfies it: a node has one NVIDIA L4 with 23034Mi of memory; change the selector in the recipe',
    ]


def test_wrong_keys_and_files_of_the_configuration_are_said_at_once(stack: Stack, place: Workplace) -> None:
    stack.configure(
        "qwen3-8b-spac",
        existing={"controlPlane": {"kubeconfigFile": "absent.kubeconfig"}, "workload": {"kubeconfigFile": "Makefile"}},
        platform={"nodePool": {"count": 1}},
        timeout={"service": "20s"},
    )
    assert stack.failing_preview().errors == [
        "error: speculation:platform.nodePool.count: is not a key of this stack; known keys: name, nodeCount",
        "error: speculation:existing.controlPlane.kubeconfigFile: absent.kubeconfig: cannot be read (no such file or directory); give the path of a kubeconfig, relative to the project",
        "error: speculation:existing.workload.kubeconfigFile: is not YAML; give the text of a kubeconfig, as `kubectl config view --raw --minify` prints it",
        "error: speculation:recipe: qwen3-8b-spac: there is no such file, and no recipe of this name; give a path, or one of qwen3-8b-baseline, qwen3-8b-spec, smollm2-135m-spec",
        "error: speculation:timeout: is not a key of this stack; did you mean timeouts? known keys: existing, monitoring, platform, recipe, secrets, target, timeouts, validation",
    ]


def kubeconfig(place: Workplace, cluster: str = "workload", **changed: str) -> dict[str, Any]:
    """The workload cluster's access with some values of its cluster entry changed."""
    document = yaml.safe_load((place.layout.home / f"{cluster}.kubeconfig").read_text())
    document["clusters"][0]["cluster"] |= changed
    (place.folder / "changed.kubeconfig").write_text(yaml.safe_dump(document))
    return {"kubeconfigFile": "changed.kubeconfig"}


def existing(place: Workplace, **access: dict[str, Any]) -> dict[str, Any]:
    own = {"kubeconfigFile": ".sandbox/control-plane.kubeconfig"}
    return {"controlPlane": own, "workload": {"kubeconfigFile": ".sandbox/workload.kubeconfig"}, **access}


def test_a_cluster_that_does_not_answer_is_said(stack: Stack, place: Workplace) -> None:
    server = f"https://127.0.0.1:{place.layout.port_base + 49}"
    stack.configure("qwen3-8b-spec", existing=existing(place, workload=kubeconfig(place, server=server)))
    assert stack.failing_preview().errors == [
        f"error: speculation:existing.workload: {server} is not reachable (connection refused); {LOOK}",
    ]


def test_a_cluster_with_another_authority_is_said(stack: Stack, place: Workplace) -> None:
    """As after a cluster was made anew at the same address."""
    other = yaml.safe_load(place.layout.control_plane.kubeconfig.read_text())
    authority = other["clusters"][0]["cluster"]["certificate-authority-data"]
    access = kubeconfig(place, **{"certificate-authority-data": authority})
    stack.configure("qwen3-8b-spec", existing=existing(place, workload=access))
    assert stack.failing_preview().errors == [
        f"error: speculation:existing.workload: {place.layout.workload.server} shows a certificate that the kubeconfig's authority did not sign (unable to get local issuer certificate); {LOOK}",
    ]


def test_the_same_cluster_given_twice_is_said(stack: Stack, place: Workplace) -> None:
    """Also when it is named differently."""
    server = f"https://localhost:{place.layout.control_plane.apiserver_port}"
    access = kubeconfig(place, "control-plane", server=server)
    stack.configure("qwen3-8b-spec", existing=existing(place, workload=access))
    assert stack.failing_preview().errors == [
        f"error: speculation:existing: {place.layout.control_plane.server} and {server} are the same cluster (one kube-system namespace), and Modelplane's gateway and serving stack would fight over it; give the control plane and the workload two clusters",
    ]


def test_a_control_plane_without_crossplane_is_said(stack: Stack, place: Workplace) -> None:
    """The two clusters the wrong way round."""
    swapped = {
        "controlPlane": {"kubeconfigFile": ".sandbox/workload.kubeconfig"},
        "workload": {"kubeconfigFile": ".sandbox/control-plane.kubeconfig"},
    }
    stack.configure("qwen3-8b-spec", existing=swapped)
    assert stack.failing_preview().errors == [
        f"{CHECK}: the control plane has no Crossplane; install Crossplane 2.3.4 and Modelplane v0.3.1 on it (docs.modelplane.ai), or give another kubeconfig",
    ]


def test_release_v030_on_the_control_plane_is_refused_with_its_reason(stack: Stack, place: Workplace) -> None:
    kubectl = Kubectl(place.layout, "control-plane")
    package = kubectl.get("configurations.pkg.crossplane.io", "modelplane")["spec"]["package"]
    assert package.endswith(":v0.3.1")
    stack.configure("qwen3-8b-spec")
    try:
        set_package(kubectl, package.replace("v0.3.1", "v0.3.0"))
        assert stack.failing_preview().errors == [
            f"{CHECK}: the control plane has Modelplane v0.3.0: {V030}; upgrade its Configuration to {package}",
        ]
    finally:
        set_package(kubectl, package)


def set_package(kubectl: Kubectl, package: str) -> None:
    patch = json.dumps({"spec": {"package": package}})
    kubectl("patch", "configurations.pkg.crossplane.io", "modelplane", "--type=merge", "-p", patch)


def test_manifests_written_for_v030_are_refused_with_the_reason(place: Workplace) -> None:
    done = place.python("-m", "recipes", "check", "qwen3-8b-spec", "--release", "v0.3.0").end()
    assert (done.status, done.errors) == (
        1,
        [
            f"error: release: v0.3.0: {V030}; use v0.3.1",
        ],
    )
