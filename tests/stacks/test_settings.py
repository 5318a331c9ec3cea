"""Everything that is wrong with a configuration is said at once, a whole line each; a right one becomes frozen
values.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.findings import Problems
from stacks.settings import ROOT, Settings, parse_settings
from tests.stacks.files import config, kubeconfig, project

KNOWN = "known keys: existing, monitoring, platform, recipe, secrets, target, timeouts, validation"
RECIPES = "give a path, or one of qwen3-8b-baseline, qwen3-8b-spec, smollm2-135m-spec"


def lines(folder: Path, encrypted: tuple[str, ...] = (), **keys: Any) -> list[str]:
    with pytest.raises(Problems) as raised:
        parse_settings(config(**keys), encrypted, project(folder))
    return str(raised.value).splitlines()


def settings(folder: Path, encrypted: tuple[str, ...] = (), **keys: Any) -> Settings:
    return parse_settings(config(**keys), encrypted, project(folder))


def recipe(folder: Path, **replaced: str) -> str:
    """A recipe file: ours, with texts replaced."""
    text = (ROOT / "recipes" / "qwen3-8b-spec.yaml").read_text()
    for old, new in replaced.items():
        text = text.replace(REPLACED[old], new)
    (folder / "mine.yaml").write_text(text)
    return "mine.yaml"


REPLACED = {
    "replicas": "replicas: 1",
    "size": '"20Gi"',
    "count": "count: 1",
    "image": "image: vllm/vllm-openai:v0.23.0",
    "window": '"prompt_lookup_min": 2',
}

TABLE = [
    pytest.param(
        {"target": None, "recipe": None, "existing": None},
        [
            "error: speculation:target: is missing; Where the clusters come from: `existing` (two kubeconfigs)",
            "error: speculation:recipe: is missing; Name of a recipe in `recipes/`, or path of a file with a "
            "ModelDeployment and a ModelService",
        ],
        id="an empty configuration",
    ),
    pytest.param(
        {"existing": None},
        [
            "error: speculation:existing: is missing; target existing needs it: set speculation:existing in "
            "Pulumi.<stack>.yaml"
        ],
        id="no clusters",
    ),
    pytest.param(
        {"target": "gke", "recipe": "smollm2"},
        [
            "error: speculation:target: gke: is not a target of this stack; use existing",
            f"error: speculation:recipe: smollm2: there is no such file, and no recipe of this name; {RECIPES}",
        ],
        id="unknown target and recipe",
    ),
    pytest.param(
        {
            "platform": {"clusterName": 3, "nodePool": {"nodCount": 2, "name": "GPU"}},
            "validation": {"enabled": "yes"},
            "timeouts": {"device": "20"},
        },
        [
            "error: speculation:platform.clusterName: 3: must be text; meaning: Name of the InferenceCluster",
            "error: speculation:platform.nodePool.name: GPU: is not a valid name; use lower-case letters, digits and "
            "hyphens, a letter first",
            "error: speculation:platform.nodePool.nodCount: is not a key of this stack; did you mean nodeCount? known "
            "keys: name, nodeCount",
            "error: speculation:validation.enabled: yes: must be true or false; meaning: Without it, `up` ends when "
            "the service answers",
            "error: speculation:timeouts.device: 20: is not a duration; write a number and s, m or h, e.g. 20m",
        ],
        id="wrong types, names, durations and a misspelt key",
    ),
    pytest.param(
        {"validation": {"schedule": "hourly"}, "monitoring": {"podMonitor": "yes"}},
        [
            "error: speculation:validation.schedule: hourly: is not a cron expression that runs: it has 1 fields, not "
            "the five minute, hour, day of the month, month, day of the week; meaning: When a CronJob validates again, "
            "e.g. `0 * * * *` for every hour (UTC). Without it none does",
            "error: speculation:monitoring.podMonitor: yes: must be true or false; meaning: A PodMonitor on the "
            "workload cluster: the Prometheus of Modelplane's serving stack scrapes the engines",
        ],
        id="no cron expression, no switch",
    ),
    pytest.param(
        {"validation": {"schedule": "0 * * * *", "enabled": False}},
        [
            "error: speculation:validation.schedule: 0 * * * *: speculation:validation.enabled is false, so there is "
            "nothing to run; remove one of the two",
        ],
        id="a schedule of what is switched off",
    ),
    pytest.param(
        {"platform": {"nodePool": {"nodeCount": 0}, "clusterName": "a" * 41}},
        [
            f"error: speculation:platform.clusterName: {'a' * 41}: is longer than 40 characters; meaning: Name of the "
            "InferenceCluster",
            "error: speculation:platform.nodePool.nodeCount: 0: must be at least 1; meaning: How many nodes carry it. "
            "Modelplane schedules by this number and never looks",
        ],
        id="out of bounds",
    ),
    pytest.param(
        {"platform": "workload", "platform.clusterName": "mine", "reciepe": "x"},
        [
            "error: speculation:platform: must be an object; set its keys with `pulumi config set --path "
            "speculation:platform.KEY VALUE`",
            "error: speculation:platform.clusterName: is not a key of this stack; it was set without --path: `pulumi "
            "config rm speculation:platform.clusterName`, then `pulumi config set --path` it again",
            f"error: speculation:reciepe: is not a key of this stack; did you mean recipe? {KNOWN}",
        ],
        id="keys set without --path, and unknown ones",
    ),
    pytest.param(
        {"existing": {"controlPlane": {"kubeconfig": "a", "kubeconfigFile": "b"}, "workload": {}}},
        [
            "error: speculation:existing.controlPlane: has both kubeconfig and kubeconfigFile; give one of them",
            "error: speculation:existing.workload: has neither kubeconfig nor kubeconfigFile; give one of them",
        ],
        id="two kubeconfigs for one cluster, none for the other",
    ),
    pytest.param(
        {"existing": {"controlPlane": {"kubeconfigFile": "control-plane.kubeconfig", "context": "prod"}}},
        [
            "error: speculation:existing.workload: is missing; give it: The cluster with the GPUs, dedicated to "
            "Modelplane. Its kubeconfig must hold its own credentials (a token or a certificate): Modelplane reads it "
            "inside the control plane, where no login plugin exists"
        ],
        id="one cluster missing",
    ),
    pytest.param(
        {"secrets": {"huggingFaceToken": "hf_abc", "imagePull": {"reg": {"registry": "ghcr.io"}}}},
        [
            "error: speculation:secrets.imagePull.reg.username: is missing; give it: User name",
            "error: speculation:secrets.imagePull.reg.password: is missing; give it: Password or token",
        ],
        id="incomplete registry credentials",
    ),
    pytest.param(
        {
            "secrets": {
                "huggingFaceToken": "hf_abc",
                "imagePull": {"reg": {"registry": "ghcr.io", "username": "u", "password": "p"}},
            }
        },
        [
            "error: speculation:secrets.huggingFaceToken: recipe qwen3-8b-spec has no env HF_TOKEN from a "
            "secretKeyRef, so no engine would read it; add the variable to the recipe's container, or remove the token",
            "error: speculation:secrets.imagePull.reg: recipe qwen3-8b-spec names no such imagePullSecrets entry (it "
            "names: none); correct the name, or add it to the recipe",
        ],
        id="secrets that no engine reads",
    ),
]


@pytest.mark.parametrize(("keys", "expected"), TABLE)
def test_every_mistake_is_a_line(keys: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    assert lines(tmp_path, **keys) == expected


CONTRADICTIONS = [
    (
        {"replicas": "replicas: 2"},
        "error: speculation:platform.nodePool.nodeCount: 1: recipe qwen3-8b-spec needs 2 nodes: Modelplane gives each "
        "engine pod one of its own; add GPU nodes and set it to 2, or lower the recipe's replicas",
    ),
    (
        {"size": '"24Gi"'},
        'error: recipe mine: device request gpu: device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("24Gi")) '
        ">= 0: no GPU of this stack satisfies it: a node has one NVIDIA L4 with 23034Mi of memory; change the selector "
        "in the recipe",
    ),
    (
        {"count": "count: 2"},
        "error: recipe mine: device request gpu.count: 2: a node of this stack has 1 NVIDIA L4; lower it in the recipe",
    ),
]


@pytest.mark.parametrize(("replaced", "line"), CONTRADICTIONS)
def test_a_recipe_that_these_nodes_cannot_serve_is_refused(replaced: dict[str, str], line: str, tmp_path: Path) -> None:
    assert lines(tmp_path, recipe=recipe(tmp_path, **replaced)) == [line]


def test_mistakes_inside_the_recipe_come_with_those_of_the_configuration(tmp_path: Path) -> None:
    found = lines(tmp_path, recipe=recipe(tmp_path, window='"prompt_lookup_min": 9'), target="gke")
    assert found[0].startswith("error: speculation:target: gke:")
    assert any("prompt_lookup_min" in line for line in found[1:])


SECRETS = {
    "a token under a wrong key": {"secrets": {"hugginFaceToken": "hf_SECRET"}},
    "a token of a wrong type": {"secrets": {"huggingFaceToken": ["hf_SECRET"]}},
    "a token instead of the object": {"secrets": "hf_SECRET"},
    "a token as an unknown key's value": {"token": "hf_SECRET"},
    "a kubeconfig instead of the object": {"existing": {"controlPlane": "hf_SECRET", "workload": "hf_SECRET"}},
    "a kubeconfig that is none": {
        "existing": {"controlPlane": {"kubeconfig": "hf_SECRET"}, "workload": {"kubeconfig": "hf_SECRET"}}
    },
    "a password that is empty": {
        "secrets": {"imagePull": {"hf": {"registry": "", "username": "u", "password": ["hf_SECRET"]}}}
    },
}


@pytest.mark.parametrize("keys", SECRETS.values(), ids=SECRETS.keys())
def test_no_line_shows_a_secret(keys: dict[str, Any], tmp_path: Path) -> None:
    assert "SECRET" not in "\n".join(lines(tmp_path, **keys))


def test_nothing_of_an_encrypted_section_is_shown(tmp_path: Path) -> None:
    keys = {"platform": {"clusterName": "Hidden"}, "target": "hidden"}
    assert lines(tmp_path, ("speculation:platform", "speculation:target"), **keys) == [
        "error: speculation:target: is not a target of this stack; use existing",
        "error: speculation:platform.clusterName: is not a valid name; use lower-case letters, digits and hyphens, a "
        "letter first",
    ]


def test_a_right_configuration_becomes_settings(tmp_path: Path) -> None:
    found = settings(tmp_path, platform={"nodePool": {"nodeCount": 2}}, timeouts={"replicas": "45m"})
    assert (found.target, found.recipe.name, found.platform.cluster_name) == ("existing", "qwen3-8b-spec", "workload")
    assert (found.platform.node_pool.name, found.platform.node_pool.node_count) == ("gpu", 2)
    assert (found.timeouts.replicas, found.timeouts.cluster) == ("45m", "20m")
    assert (found.control_plane.server, found.workload.server) == (
        "https://203.0.113.1:6443",
        "https://203.0.113.2:6443",
    )
    assert found.validation.enabled
    with pytest.raises(AttributeError):
        found.target = "existing"  # type: ignore[misc]


def test_a_recipe_is_a_name_or_a_path_relative_to_the_project(tmp_path: Path) -> None:
    assert settings(tmp_path, recipe=recipe(tmp_path)).recipe.path == tmp_path / "mine.yaml"


def test_secrets_in_plain_text_are_warned_of_and_encrypted_ones_are_not(tmp_path: Path) -> None:
    text = yaml.safe_dump(kubeconfig())
    existing = {"controlPlane": {"kubeconfig": text}, "workload": {"kubeconfigFile": "workload.kubeconfig"}}
    plain = settings(tmp_path, existing=existing)
    assert [warning.line() for warning in plain.warnings if warning.severity == "warning"] == [
        "warning: speculation:existing.controlPlane.kubeconfig: is stored in plain text; `pulumi config set --secret "
        "--path speculation:existing.controlPlane.kubeconfig`"
    ]
    encrypted = settings(tmp_path, ("speculation:existing",), existing=existing)
    assert [warning for warning in encrypted.warnings if warning.severity == "warning"] == []


TOKEN_ENV = textwrap.indent(
    """\
image: vllm/vllm-openai:v0.23.0
env:
- name: HF_TOKEN
  valueFrom:
    secretKeyRef: {name: hugging-face, key: token}
""",
    " " * 16,
).strip()


def test_a_secret_that_the_recipe_reads_and_nobody_gives_is_warned_of(tmp_path: Path) -> None:
    name = recipe(tmp_path, image=TOKEN_ENV)
    without = [w.line() for w in settings(tmp_path, recipe=name).warnings if w.severity == "warning"]
    assert without == [
        "warning: recipe Secret hugging-face, key token: an engine of the recipe reads it, and this stack does not "
        "make it; make it in namespace default of the workload cluster or set speculation:secrets.huggingFaceToken"
    ]
    given = settings(tmp_path, ("speculation:secrets",), recipe=name, secrets={"huggingFaceToken": "hf_x"})
    assert [w.line() for w in given.warnings if w.severity == "warning"] == []
