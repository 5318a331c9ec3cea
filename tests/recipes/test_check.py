"""Bad recipes: each gives its line, at the property path that the file has."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.findings import Problems, Severity
from recipes import check_recipe, load_recipe
from tests.modelplane.cases import CACHE, DELETE, DEPLOYMENT, MEMBER, POD, SELECTOR, SERVICE, SPEC, changed

CONTAINER = f"{POD}.spec.containers[0]"
MD = "ModelDeployment/ml-team/qwen3-8b-spec: "
MS = "ModelService/ml-team/qwen3-8b-spec: "
NGRAM = '{"method": "ngram", "num_speculative_tokens": %s, "prompt_lookup_max": %s, "prompt_lookup_min": %s%s}'
ARGS = [
    "--model=Qwen/Qwen3-8B",
    "--served-model-name=qwen3-8b-spec",
    "--max-model-len=16384",
    "--speculative-config=" + NGRAM % (5, 4, 2, ""),
]
RECIPE = [changed(DEPLOYMENT, {f"{CONTAINER}.args": ARGS}), SERVICE]


def with_args(*args: str) -> list[dict[str, Any]]:
    return [changed(DEPLOYMENT, {f"{CONTAINER}.args": list(args)}), SERVICE]


def with_config(text: str) -> list[dict[str, Any]]:
    return with_args(*ARGS[:-1], f"--speculative-config={text}")


def deployment(changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [changed(RECIPE[0], changes), SERVICE]


def service(changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [RECIPE[0], changed(SERVICE, changes)]


def renamed(name: str) -> list[dict[str, Any]]:
    labels = {"modelplane.ai/deployment": name}
    return [
        changed(RECIPE[0], {"metadata.name": name}),
        changed(SERVICE, {"spec.endpoints[0].selector.matchLabels": labels}),
    ]


def write(folder: Path, documents: list[dict[str, Any]]) -> Path:
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return file


def found(folder: Path, documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(severity, path) of every finding."""
    return [(str(f.severity), f.path) for f in check_recipe(write(folder, documents)).findings]


def test_the_table_starts_from_a_recipe_without_findings(tmp_path: Path) -> None:
    checked = check_recipe(write(tmp_path, RECIPE))
    assert checked.findings == ()
    assert checked.manifests == tuple(RECIPE)
    assert checked.deployable


ERRORS: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "min above max": (
        with_config(NGRAM % (5, 2, 4, "")),
        f"{MD}{CONTAINER}.args: --speculative-config: prompt_lookup_min",
        "must be <= prompt_lookup_max=2",
    ),
    "no speculative tokens": (
        with_config(NGRAM % (0, 4, 2, "")),
        f"{MD}{CONTAINER}.args: --speculative-config: num_speculative_tokens",
        "at least 1",
    ),
    "an unknown speculative key": (
        with_config(NGRAM % (5, 4, 2, ', "prompt_lookup_minimum": 2')),
        f"{MD}{CONTAINER}.args: --speculative-config: prompt_lookup_minimum",
        "unknown key",
    ),
    "the flag twice": (
        with_args(*ARGS, ARGS[-1]),
        f"{MD}{CONTAINER}.args: --speculative-config",
        "given 2 times",
    ),
    "an API key that neither the gates nor the Job would send": (
        with_args(*ARGS, "--api-key=sk-1"),
        f"{MD}{CONTAINER}.args: --api-key",
        "the stack and its validation send no key",
    ),
    "a context longer than the model's": (
        with_args(*ARGS, "--max-model-len=50000"),
        f"{MD}{CONTAINER}.args: --max-model-len",
        "context of 40960 tokens",
    ),
    "no model": (
        with_args("--max-model-len=16384"),
        f"{MD}{CONTAINER}.args: --model",
        "names its model",
    ),
    "another port": (with_args(*ARGS, "--port=9000"), f"{MD}{CONTAINER}.args: --port", "port 8000"),
    "loopback only": (with_args(*ARGS, "--host=127.0.0.1"), f"{MD}{CONTAINER}.args: --host", "pod's address"),
    "TLS": (with_args(*ARGS, "--ssl-keyfile=/k"), f"{MD}{CONTAINER}.args: --ssl-keyfile", "plain HTTP"),
    "a selector that cannot be parsed": (
        deployment({f"{MEMBER}.nodeSelector.devices[0].selectors[0].cel": SELECTOR.replace(")) >=", ") >=")}),
        f"{MD}{MEMBER}.nodeSelector.devices[0].selectors[0].cel",
        "not valid CEL",
    ),
    "a selector with an unknown function": (
        deployment({f"{MEMBER}.nodeSelector.devices[0].selectors[0].cel": "device.driver.lowerAscii() == 'x'"}),
        f"{MD}{MEMBER}.nodeSelector.devices[0].selectors[0].cel",
        "does not know",
    ),
    "an engine name in capitals": (
        deployment({f"{SPEC}.engines[0].name": "Qwen"}),
        f"{MD}{SPEC}.engines[0].name",
        "no DNS label",
    ),
    "a generated name": (
        deployment({"metadata.name": DELETE, "metadata.generateName": "qwen-"}),
        "ModelDeployment/ml-team/?: metadata.name",
        "is required",
    ),
    "a name that begins with a digit": (
        renamed("3b"),
        "ModelDeployment/ml-team/3b: metadata.name",
        "begin with a letter",
    ),
    "a name of 54 characters": (
        renamed("a" * 54),
        f"ModelDeployment/ml-team/{'a' * 54}: metadata.name",
        "longer than 53",
    ),
    "a service in another namespace": (
        service({"metadata.namespace": "web"}),
        "ModelService/web/qwen3-8b-spec: metadata.namespace",
        "the deployment is in ml-team",
    ),
    "a service of another deployment": (
        service({"spec.endpoints[0].selector.matchLabels": {"modelplane.ai/deployment": "qwen3-8b"}}),
        f"{MS}spec.endpoints[0].selector.matchLabels",
        "they carry modelplane.ai/deployment=qwen3-8b-spec",
    ),
    "a service that selects by a label nobody sets": (
        service({"spec.endpoints[0].selector.matchLabels": {"app": "qwen"}}),
        f"{MS}spec.endpoints[0].selector.matchLabels",
        "they do not carry app",
    ),
    "a service of a replica that is not there": (
        service({"spec.endpoints[0].selector.matchLabels": {"modelplane.ai/replica-index": "1"}}),
        f"{MS}spec.endpoints[0].selector.matchLabels",
        "there is no replica 1",
    ),
    "two deployments": ([*RECIPE, changed(RECIPE[0], {"metadata.name": "b"})], "recipe", "has 2 ModelDeployments"),
    "no deployment": ([SERVICE], "recipe", "has 0 ModelDeployments"),
    "an empty file": ([], "recipe", "has 0 ModelDeployments"),
    "two services": ([*RECIPE, changed(SERVICE, {"metadata.name": "b"})], "recipe", "has 2 ModelServices"),
    "another kind of Modelplane": ([*RECIPE, CACHE], "recipe", "is not applied with a recipe"),
    "another kind of Kubernetes": (
        [*RECIPE, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}],
        "recipe",
        "is not applied with a recipe",
    ),
    "an unknown key of the manifest": (deployment({"spec.paused": True}), f"{MD}spec.paused", "unknown key"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_recipe_with_one_mistake_gives_one_error(name: str, tmp_path: Path) -> None:
    documents, path, why = ERRORS[name]
    checked = check_recipe(write(tmp_path, documents))
    errors = [finding for finding in checked.findings if finding.severity is Severity.ERROR]
    assert [error.path for error in errors] == [path]
    assert why in errors[0].line()
    assert errors[0].remedy
    assert not checked.deployable
    with pytest.raises(Problems) as caught:
        load_recipe(write(tmp_path, documents))
    assert list(caught.value.findings) == errors


def test_e95_a_service_named_vllm_is_refused(tmp_path: Path) -> None:
    assert found(tmp_path, service({"metadata.name": "vllm"})) == [
        ("error", "ModelService/ml-team/vllm: metadata.name"),
    ]
    assert found(tmp_path, renamed("vllm-qwen")) == [
        ("warning", "ModelDeployment/ml-team/vllm-qwen: metadata.name"),
    ]


def test_all_mistakes_are_reported_in_one_run(tmp_path: Path) -> None:
    documents = [
        changed(with_config(NGRAM % (0, 2, 4, ', "x": 1'))[0], {"metadata.name": "3b"}),
        changed(SERVICE, {"metadata.name": "vllm"}),
    ]
    paths = [path.rpartition(": ")[2] for _, path in found(tmp_path, documents)]
    assert sorted(paths) == [
        "metadata.name",
        "metadata.name",
        "num_speculative_tokens",
        "prompt_lookup_min",
        "spec.endpoints[0].selector.matchLabels",
        "x",
    ]


REMARKS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "a namespace": (
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team"}}, *RECIPE],
        [("info", "recipe")],
    ),
    "a service that selects more": (
        service({"spec.endpoints[0].selector.matchLabels": {"modelplane.ai/cluster": "wl"}}),
        [("warning", f"{MS}spec.endpoints[0].selector.matchLabels")],
    ),
    "a share of the traffic for others": (
        service({"spec.endpoints[1]": {"selector": {"matchLabels": {"app": "old"}}}}),
        [("warning", f"{MS}spec.endpoints[1].selector.matchLabels")],
    ),
    "a label of the template": (
        [
            changed(RECIPE[0], {"spec.template.metadata": {"labels": {"tier": "prod"}}}),
            changed(SERVICE, {"spec.endpoints[0].selector.matchLabels.tier": "prod"}),
        ],
        [],
    ),
    "a cache": (
        deployment({f"{SPEC}.modelCacheRef": {"name": "weights"}}),
        [("warning", f"{MD}{SPEC}.modelCacheRef.name")],
    ),
    "secrets": (
        deployment(
            {
                f"{POD}.spec.imagePullSecrets": [{"name": "registry"}],
                f"{CONTAINER}.env": [
                    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
                    {"name": "HUGGING_FACE_HUB_TOKEN", "value": "letmein"},
                ],
            }
        ),
        [
            ("warning", f"{MD}{CONTAINER}.env: HUGGING_FACE_HUB_TOKEN"),
            ("info", f"{MD}{POD}.spec.imagePullSecrets[0].name"),
            ("info", f"{MD}{CONTAINER}.env[0]"),
        ],
    ),
}


@pytest.mark.parametrize("name", REMARKS)
def test_what_is_worth_a_word_does_not_stop_a_recipe(name: str, tmp_path: Path) -> None:
    documents, remarks = REMARKS[name]
    assert found(tmp_path, documents) == remarks
    assert load_recipe(write(tmp_path, documents)).model_name == "qwen3-8b-spec"


def test_a_secret_in_the_clear_is_not_repeated(tmp_path: Path) -> None:
    documents, _ = REMARKS["secrets"]
    findings = check_recipe(write(tmp_path, documents)).findings
    assert "letmein" not in "".join(finding.line() for finding in findings)


def places(node: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value below a document."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    below = [place for key, child in children for place in places(child, (*path, key))]
    return [path, *below] if path else below


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 2**70, 1.5, "", "x", "ünïcode: \n", [], [None], [[]], {}, {"a": {}}, {"": ""}]
)


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(places(RECIPE)), junk=JUNK)
def test_any_value_anywhere_is_answered_with_findings(place: tuple[str | int, ...], junk: Any) -> None:
    documents = copy.deepcopy(RECIPE)
    node: Any = documents
    for part in place[:-1]:
        node = node[part]
    node[place[-1]] = junk
    with tempfile.TemporaryDirectory() as folder:
        checked = check_recipe(write(Path(folder), documents))
    for finding in checked.findings:
        assert "\n" not in finding.line()
    assert checked.deployable is not any(finding.severity is Severity.ERROR for finding in checked.findings)


def test_a_missing_service_is_added(tmp_path: Path) -> None:
    checked = check_recipe(write(tmp_path, RECIPE[:1]))
    assert [(f.severity, f.path) for f in checked.findings] == [
        (Severity.INFO, "ModelService/ml-team/qwen3-8b-spec"),
    ]
    assert checked.recipe is not None
    assert checked.recipe.manifests == checked.manifests
    assert checked.manifests[1] == changed(SERVICE, {"spec.endpoints[0].weight": DELETE})


def test_an_object_without_namespace_goes_to_default(tmp_path: Path) -> None:
    documents = [changed(document, {"metadata.namespace": DELETE}) for document in RECIPE]
    assert load_recipe(write(tmp_path, documents)).namespaces == ("default",)
    assert found(tmp_path, [documents[0], SERVICE]) == [("error", f"{MS}metadata.namespace")]


def test_a_mistake_in_the_old_form_is_reported_where_the_file_has_it(tmp_path: Path) -> None:
    old = copy.deepcopy(with_config(NGRAM % (5, 2, 4, ""))[0])
    old["spec"] |= old["spec"].pop("template")["spec"]
    file = write(tmp_path, [old, SERVICE])
    container = "spec.engines[0].members[0].template.spec.containers[0]"
    checked = check_recipe(file)
    assert [f.path for f in checked.findings] == [
        f"{MD}spec.engines",
        f"{MD}{container}.args: --speculative-config: prompt_lookup_min",
    ]
    assert "spec.engines" in check_recipe(file, "v0.3.1").findings[0].line()


def test_a_leader_without_devices_and_its_workers_are_two_engines(tmp_path: Path) -> None:
    members = [
        changed(RECIPE[0]["spec"]["template"]["spec"]["engines"][0]["members"][0], {"role": "Leader"}),
        changed(
            RECIPE[0]["spec"]["template"]["spec"]["engines"][0]["members"][0],
            {"role": "Worker", "worker": {"nodes": 1}, "template.spec.containers[0].args": ["--headless"]},
        ),
    ]
    del members[0]["nodeSelector"]
    recipe = check_recipe(write(tmp_path, deployment({f"{SPEC}.engines[0].members": members}))).recipe
    assert recipe is not None
    assert [(engine.name, engine.role) for engine in recipe.engines] == [
        ("qwen3-8b-spec", "Leader"),
        ("qwen3-8b-spec", "Worker"),
    ]
    assert [request.name for request in recipe.device_requests] == ["gpu"]
    assert recipe.model_name == "qwen3-8b-spec"
