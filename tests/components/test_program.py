"""What the whole program promises the engine: explicit providers, secrets, order, replacement; checked on its
registrations.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from components.gates.validation_job import INPUTS
from tests.components.recorder import ROOT, Ran, is_secret, plain_texts, run_program
from tests.stacks.files import config, kubeconfig

TOKEN = "secret-token"
KUBECONFIGS = {name: kubeconfig(f"https://203.0.113.{n}:6443") for name, n in (("controlPlane", 1), ("workload", 2))}
CONFIG = config(existing={name: {"kubeconfig": json.dumps(text)} for name, text in KUBECONFIGS.items()})
ENCRYPTED = ("speculation:existing",)


@pytest.fixture(scope="module")
def ran() -> Ran:
    return run_program(CONFIG, ENCRYPTED)


def reaches(ran: Ran, name: str) -> set[str]:
    """Everything that must be there before `name` is made."""
    names = {resource.name for resource in ran.resources}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for before in ran.named(waiting.pop()).depends_on & names - seen:
            seen.add(before)
            waiting.append(before)
    return seen


class TestProviders:
    def test_every_kubernetes_object_names_the_provider_of_its_cluster(self, ran: Ran) -> None:
        found = {resource.name: resource.provider for resource in ran.of("kubernetes:")}
        assert found == {
            "platform-gateway": "control-plane",
            "platform-class": "control-plane",
            "platform-kubeconfig": "control-plane",
            "platform-cluster": "control-plane",
            "model-deployment": "control-plane",
            "model-service": "control-plane",
            "validation-account": "workload",
            "validation-reader": "workload",
            "validation-reader-binding": "workload",
            "validation-writer": "workload",
            "validation-writer-binding": "workload",
            "validation-program": "workload",
        }

    def test_a_provider_is_told_apart_by_the_clusters_identity_so_a_new_token_replaces_nothing(self, ran: Ran) -> None:
        # pulumi-kubernetes issue 1148: without it every object is replaced with the provider.
        identities = {p.name: p.inputs["clusterIdentifier"] for p in ran.of("pulumi:providers:kubernetes")}
        assert identities == {"control-plane": "uid-control-plane", "workload": "uid-workload"}

    def test_objects_carry_the_plugin_version_of_the_sdk(self, ran: Ran) -> None:
        pins = (ROOT / "requirements.txt").read_text()
        versions = {resource.request.version for resource in ran.of("kubernetes:")}
        assert [f"pulumi-kubernetes=={version}" in pins for version in versions] == [True]


class TestSecrets:
    def test_no_plain_input_holds_a_credential(self, ran: Ran) -> None:
        wrong = [
            (resource.name, text)
            for resource in ran.resources
            for text in plain_texts(resource.inputs)
            if TOKEN in text or "certificate-authority-data" in text
        ]
        assert wrong == []

    def test_kubeconfigs_are_secret_outputs(self, ran: Ran) -> None:
        # pulumi-eks issue 725: an exported kubeconfig was readable in the state.
        assert is_secret(ran.outputs["control_plane_kubeconfig"])
        assert is_secret(ran.outputs["workload_kubeconfig"])

    def test_every_kubeconfig_input_is_secret_and_stays_so_in_the_state(self, ran: Ran) -> None:
        for resource in ran.resources:
            for key in (key for key in resource.inputs if key.endswith("kubeconfig")):
                assert is_secret(resource.inputs[key]), (resource.name, key)
                assert key in resource.request.additionalSecretOutputs, (resource.name, key)

    def test_the_engines_token_reaches_only_a_secret_of_the_workload_cluster(self, tmp_path: Any) -> None:
        text = (ROOT / "recipes" / "qwen3-8b-spec.yaml").read_text()
        image = "image: vllm/vllm-openai:v0.23.0\n"
        reference = "{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hugging-face, key: token}}}"
        (tmp_path / "mine.yaml").write_text(text.replace(image, f"{image}                env: [{reference}]\n"))
        changed = {
            **CONFIG,
            "speculation:recipe": str(tmp_path / "mine.yaml"),
            "speculation:secrets": json.dumps({"huggingFaceToken": "hf_SECRET"}),
        }
        found = run_program(changed, (*ENCRYPTED, "speculation:secrets"))
        assert found.error == ""
        secret = found.named("model-secret-hugging-face")
        assert (secret.provider, secret.inputs["metadata"]["namespace"]) == ("workload", "default")
        assert is_secret(secret.inputs["data"]["token"])
        assert "model-secret-hugging-face" in found.named("model-deployment").depends_on
        assert [t for resource in found.resources for t in plain_texts(resource.inputs) if "hf_SECRET" in t] == []


class TestOrder:
    def test_nothing_touches_a_cluster_before_it_was_checked(self, ran: Ran) -> None:
        others = [r for r in ran.resources if r.request.custom and "providers" not in r.token]
        cluster_resources = [r for r in others if r.name != "clusters-check"]
        assert [r.name for r in cluster_resources if "clusters-check" not in reaches(ran, r.name)] == []

    def test_each_step_waits_for_what_was_promised_before_it(self, ran: Ran) -> None:
        steps = [
            "clusters-check",
            "platform-namespace",
            "platform-kubeconfig",
            "platform-cluster",
            "platform-ready",
            "model-device",
            "model-deployment",
            "model-replicas",
            "model-serving",
            "validation-run",
            "validation-verdict",
        ]
        for before, after in pairwise(steps):
            assert before in reaches(ran, after), f"{after} does not wait for {before}"

    def test_destroy_waits_for_the_replicas_between_the_deployment_and_the_cluster(self, ran: Ran) -> None:
        # Modelplane: an InferenceCluster deleted before its replicas is refused, or hangs.
        assert "model-replicas-gone" in reaches(ran, "model-deployment")
        assert "platform-cluster" in reaches(ran, "model-replicas-gone")

    def test_the_kubeconfig_secret_outlives_the_inference_cluster(self, ran: Ran) -> None:
        # modelplane issue 212.
        assert "platform-kubeconfig" in reaches(ran, "platform-cluster")

    def test_nothing_depends_on_the_verdict(self, ran: Ran) -> None:
        assert [r.name for r in ran.resources if "validation-verdict" in r.depends_on] == []

    def test_every_wait_on_destroy_has_the_time_of_destroy(self) -> None:
        times = {"speculation:timeouts": json.dumps({"destroy": "41m"})}
        ran = run_program({**CONFIG, **times}, ENCRYPTED)
        deletes = {r.name: r.request.customTimeouts.delete for r in ran.of("speculation:gates:")}
        waits = ("platform-namespace", "platform-ready", "model-namespace", "model-replicas-gone")
        assert {name: deletes[name] for name in waits} == dict.fromkeys(waits, "41m")

    def test_everything_has_a_component_as_parent(self, ran: Ran) -> None:
        components = {"clusters", "platform", "model", "validation"}
        assert {r.parent for r in ran.resources if r.request.custom} == components


class TestReplacement:
    def test_a_changed_engine_replaces_the_deployment_old_before_new(self, ran: Ran) -> None:
        # A rolled pod on a single-GPU pool waits for ever for the claim of the one before.
        request = ran.named("model-deployment").request
        assert (list(request.replaceOnChanges), request.deleteBeforeReplace) == (["spec.template"], True)

    def test_a_changed_engine_makes_the_gates_ask_again(self, ran: Ran) -> None:
        baseline = run_program({**CONFIG, "speculation:recipe": "qwen3-8b-baseline"}, ENCRYPTED)
        for gate in ("model-replicas", "model-serving"):
            assert baseline.named(gate).inputs["spec"] != ran.named(gate).inputs["spec"]

    def test_an_unchanged_stack_has_the_same_inputs_again(self, ran: Ran) -> None:
        again = run_program(CONFIG, ENCRYPTED)
        assert [(r.urn, r.inputs) for r in sorted(again.resources, key=lambda r: r.urn)] == [
            (r.urn, r.inputs) for r in sorted(ran.resources, key=lambda r: r.urn)
        ]


class TestOutputs:
    def test_an_engine_that_was_made_again_is_validated_again(self, ran: Ran) -> None:
        again = run_program(CONFIG, ENCRYPTED, ReplicasReady={"replicas": ["model-1a2b3"], "uids": ["uid-2"]})
        gate = "speculation:gates:ValidationRun"
        specs = {found.of(gate)[0].inputs["spec"] for found in (ran, again)}
        assert len(specs) == 2

    def test_the_outputs(self, ran: Ran) -> None:
        assert ran.error == ""
        hidden = ("control_plane_kubeconfig", "workload_kubeconfig", "validation_job")
        assert all(is_secret(ran.outputs[key]) for key in hidden)
        shown = {key: value for key, value in ran.outputs.items() if key not in hidden}
        assert shown == {
            "service_address": "http://203.0.113.20/ml-team/model",
            "model": "qwen3-8b-spec",
            "validation": {"schema": 1, "verdict": "speculating"},
            "workload_cluster": "workload",
            "log_command": "(umask 077; pulumi stack output workload_kubeconfig --show-secrets --stack test > "
            "workload.kubeconfig) && kubectl --kubeconfig workload.kubeconfig logs -n default "
            "-l modelplane.ai/serving=model-1a2b3 -c engine --tail=-1",
        }

    def test_the_log_command_follows_all_replicas(self) -> None:
        ran = run_program(CONFIG, ENCRYPTED, ReplicasReady={"replicas": ["a-11111", "a-22222"]})
        assert (
            "-l 'modelplane.ai/serving in (a-11111,a-22222)' -c engine --tail=-1 --prefix" in ran.outputs["log_command"]
        )

    def test_the_job_gets_the_replicas_names_and_the_declared_args(self, ran: Ran) -> None:
        document = json.loads(ran.named("validation-run").inputs["job"])
        (engine,) = document.pop("declared")["engines"]
        assert document == {
            "schema": 1,
            "service_address": "http://203.0.113.20/ml-team/model",
            "model": "qwen3-8b-spec",
            "namespace": "default",
            "replicas": ["model-1a2b3"],
        }
        assert (engine["name"], engine["image"]) == ("qwen3-8b-spec", "vllm/vllm-openai:v0.23.0")
        assert any(argument.startswith("--speculative-config=") for argument in engine["args"])

    def test_a_check_is_told_all_that_the_run_of_up_was_given(self, ran: Ran) -> None:
        given = ran.named("validation-run").inputs
        assert ran.outputs["validation_job"]["value"] == {key: given[key] for key in INPUTS}

    def test_without_validation_the_stack_ends_with_the_service(self) -> None:
        ran = run_program({**CONFIG, "speculation:validation": json.dumps({"enabled": False})}, ENCRYPTED)
        assert "validation" not in ran.outputs
        assert ran.of("speculation:gates:ValidationRun") == []


class TestPreview:
    def test_the_first_preview_shows_every_resource_though_nothing_is_known(self, ran: Ran) -> None:
        unknown: dict[str, dict[str, Any]] = {r.token.rsplit(":", 1)[1]: {} for r in ran.of("speculation:gates:")}
        preview = run_program(CONFIG, ENCRYPTED, preview=True, **unknown)
        assert preview.error == ""
        assert {r.urn for r in preview.resources} == {r.urn for r in ran.resources}

    def test_a_wrong_configuration_ends_the_program_without_a_single_resource(self) -> None:
        ran = run_program({**CONFIG, "speculation:target": "gke"}, ENCRYPTED)
        assert (ran.resources, ran.error) == (
            [],
            "speculation:target: gke: is not a target of this stack; use existing",
        )


class TestRights:
    def test_the_job_may_read_engine_pods_and_write_in_its_own_namespace_only(self, ran: Ran) -> None:
        roles = {
            r.inputs["metadata"]["namespace"]: r.inputs["rules"]
            for r in ran.of("kubernetes:rbac")
            if "rules" in r.inputs
        }
        assert roles == {
            "default": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
            ],
            "speculation-validation": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "patch"]}
            ],
        }
