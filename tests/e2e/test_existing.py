"""Target `existing`, with the fake engine in place of vLLM's GPU image: what a user of two clusters gets."""

# ruff: noqa: E501 - lines stand as they are printed

from __future__ import annotations

import base64
import json
import subprocess
from typing import Any

import httpx
import pytest

from sandbox.layout import CLUSTERS
from tests.e2e.clusters import engine_pods, watched
from tests.e2e.stack import Stack, container_of, recipe_of
from tests.e2e.workplace import Workplace
from tests.sandbox.kubectl import Kubectl

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(400)]

CHECK = "error: speculation:gates:Clusters resource 'clusters-check' has a problem"
TOKEN = "hf_e2eSecretTokenThatMustNotBeSeen"
# The seed's own request.
PROMPT = (
    "Return this Python function unchanged except rename the variable `total` to `subtotal`. Output only the code.\n\n"
    "def cart(items):\n    total = 0\n    for item in items:\n        total += item.price\n    return total"
)
COPIED = PROMPT.partition("\n\n")[2].replace("total", "subtotal")


@pytest.fixture(scope="module")
def served(stack: Stack) -> Stack:
    """The seed's own recipe, deployed."""
    stack.configure("qwen3-8b-spec")
    stack.up()
    return stack


def completion(outputs: dict[str, Any]) -> str:
    body = {"model": outputs["model"], "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 200}
    answer = httpx.post(f"{outputs['service_address']}/v1/chat/completions", json=body, timeout=30).raise_for_status()
    return str(answer.json()["choices"][0]["message"]["content"])


def test_the_seed_is_served_at_its_address_on_the_l4(served: Stack, place: Workplace) -> None:
    outputs = served.outputs()
    port = place.layout.control_plane_gateway_port
    assert {key: outputs[key] for key in ("service_address", "model", "workload_cluster")} == {
        "service_address": f"http://127.0.0.1:{port}/ml-team/qwen3-8b-spec",
        "model": "qwen3-8b-spec",
        "workload_cluster": "workload",
    }
    assert completion(outputs) == COPIED
    (pod,) = engine_pods(place.layout)
    assert pod["spec"]["nodeName"] == "gpu-1"
    (claim,) = Kubectl(place.layout).get("resourceclaims")["items"]
    (allocated,) = claim["status"]["allocation"]["devices"]["results"]
    (resource_slice,) = Kubectl(place.layout).get("resourceslices")["items"]
    (device,) = resource_slice["spec"]["devices"]
    assert (allocated["driver"], allocated["device"]) == ("gpu.nvidia.com", device["name"])
    assert device["attributes"]["productName"] == {"string": "NVIDIA L4"}


def test_the_verdict_is_exported_with_five_witnesses_that_agree(served: Stack) -> None:
    verdict = served.verdict()
    told = {witness["name"]: witness["says"] for witness in verdict["witnesses"]}
    names = ("declared_args", "live_args", "engine_log", "metrics", "behaviour")
    assert (verdict["verdict"], verdict["ok"], told) == ("speculating", True, dict.fromkeys(names, "yes"))


def test_the_log_command_prints_the_speculative_config(served: Stack, place: Workplace) -> None:
    printed = place.shell(served.outputs()["log_command"]).end()
    assert printed.status == 0, printed.output
    assert "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)" in printed.output


def test_the_kubeconfigs_are_secret_outputs_that_work(served: Stack, place: Workplace) -> None:
    names = ("control_plane_kubeconfig", "workload_kubeconfig")
    assert [served.outputs()[name] for name in names] == ["[secret]", "[secret]"]
    nodes = [nodes_of(place, served.outputs("--show-secrets")[name]) for name in names]
    assert nodes == [["control-1"], ["gpu-1", "system-1"]]


def nodes_of(place: Workplace, kubeconfig: str) -> list[str]:
    file = place.logs / "given.kubeconfig"
    file.write_text(kubeconfig)
    argv = [str(place.layout.bin / "kubectl"), f"--kubeconfig={file}", "get", "nodes", "-o", "name"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name.removeprefix("node/") for name in listed)


def test_a_second_up_changes_nothing_and_validates_nothing(served: Stack, place: Workplace) -> None:
    def state() -> object:
        jobs = Kubectl(place.layout).names("jobs", "--all-namespaces")
        pods = [pod["metadata"]["uid"] for pod in engine_pods(place.layout)]
        return served.verdict(), jobs, pods

    before = state()
    again = served.up()
    assert resources(again.output) == {"unchanged"}
    assert state() == before
    served("preview", "--stack", "local", "--expect-no-changes")


def resources(output: str) -> set[str]:
    """The words of Pulumi's summary."""
    summary = output.rpartition("Resources:")[2].partition("Duration:")[0]
    return {line.split()[-1] for line in summary.splitlines() if line.strip()}


def test_clusters_that_another_stack_uses_are_refused(served: Stack, place: Workplace) -> None:
    other = Stack(place, "other")
    other.configure("qwen3-8b-spec")
    refused = other.failing_preview().errors
    other("stack", "rm", "other", "--yes")
    other("stack", "select", "local")  # Pulumi forgets the selected stack with any that it removes
    dedicated = "use a cluster dedicated to Modelplane, or uninstall it and delete its CRDs"
    assert refused == [
        f"{CHECK}: the control plane already holds the Gateway API (API group gateway.networking.k8s.io), which Modelplane installs itself and does not adopt; {dedicated}",
        f"{CHECK}: the workload cluster already holds cert-manager and Envoy Gateway and the Gateway API and the Prometheus operator (API group cert-manager.io, gateway.envoyproxy.io, gateway.networking.k8s.io, monitoring.coreos.com), which Modelplane installs itself and does not adopt; {dedicated}",
    ]


def test_a_users_file_in_the_older_dialect_replaces_it_old_replica_first(served: Stack, place: Workplace) -> None:
    """Changed arguments and a token, too: the one GPU must be free before the next engine asks for it."""
    recipe = recipe_of(place)
    engine = container_of(recipe)
    engine["args"].append("--max-num-seqs=16")
    secret = {"secretKeyRef": {"name": "hugging-face", "key": "token"}}
    engine["env"] = [{"name": "HF_TOKEN", "valueFrom": secret}]
    deployment = recipe[0]["spec"]
    deployment |= deployment.pop("template")["spec"]
    assert set(deployment) == {"replicas", "engines"}
    served.configure(recipe)
    served("config", "set", "--stack", "local", "--secret", "--path", "speculation:secrets.huggingFaceToken", TOKEN)
    pods = watched(place.layout, "workload", "pods", "-l", "modelplane.ai/serving")
    replicas = watched(place.layout, "control-plane", "modelreplicas", "-n", "ml-team")
    with pods as pod_changes, replicas as replica_changes:
        served.up()
    assert [change for change, _ in pod_changes.seen] == ["ADDED", "DELETED", "ADDED"]
    assert [change for change, _ in replica_changes.seen] == ["ADDED", "DELETED", "ADDED"]
    assert served.verdict()["ok"] is True
    (pod,) = engine_pods(place.layout)
    (container,) = pod["spec"]["containers"]
    assert container["args"] == engine["args"]
    data = Kubectl(place.layout).get("secret", "hugging-face", "--namespace=default")["data"]
    assert data == {"token": base64.b64encode(TOKEN.encode()).decode()}


def test_no_secret_stands_in_the_clear(served: Stack, place: Workplace) -> None:
    """In the state, the configuration, and what all commands so far have printed."""
    kubeconfigs = [place.layout.cluster(name).kubeconfig.read_text() for name in CLUSTERS]
    keys = [line.split()[1] for text in kubeconfigs for line in text.splitlines() if "client-key-data:" in line]
    assert len(keys) == 2
    secrets = [TOKEN, base64.b64encode(TOKEN.encode()).decode(), *keys]
    places = {
        "state": json.dumps(served.exported()),
        "backend": "".join(p.read_text() for p in place.layout.pulumi_backend.rglob("*.json")),
        "configuration": served.configuration,
        "output": "".join(running.output for running in place.started if "--show-secrets" not in running.argv),
    }
    assert TOKEN not in places["configuration"]
    assert [(where, secret) for where, text in places.items() for secret in secrets if secret in text] == []


def test_kubeconfigs_may_be_given_as_secret_text(served: Stack, place: Workplace) -> None:
    """The state stays as it is; only the way to the log differs, since there is no file to name."""
    for key, cluster in (("controlPlane", place.layout.control_plane), ("workload", place.layout.workload)):
        text = cluster.kubeconfig.read_text()
        path = f"speculation:existing.{key}.kubeconfig"
        served("config", "set", "--stack", "local", "--secret", "--path", path, text)
        served("config", "rm", "--stack", "local", "--path", f"speculation:existing.{key}.kubeconfigFile")
    before = served.verdict()
    assert resources(served.up().output) == {"unchanged"}
    assert served.verdict() == before
    printed = place.shell(served.outputs()["log_command"]).end()
    assert "SpeculativeConfig(method='ngram'" in printed.output


def test_the_baseline_is_proved_to_be_one(served: Stack) -> None:
    served.configure("qwen3-8b-baseline")
    served.up()
    verdict = served.verdict()
    found = verdict["verdict"], verdict["declared"], verdict["ok"], served.outputs()["model"]
    assert found == ("baseline", "baseline", True, "qwen3-8b-baseline")
