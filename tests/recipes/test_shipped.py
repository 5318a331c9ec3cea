"""The recipes that come with the project: deployable, and what they promise of each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.findings import Severity
from engine.speculative import resolve
from recipes import Recipe, load_recipe
from recipes.loader import recipe_names

SEED = Path(__file__).resolve().parents[3] / "shared" / "seeds"
NGRAM = {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}


def facts(recipe: Recipe) -> dict[str, Any]:
    (engine,) = recipe.engines
    return {
        "name": recipe.name,
        "namespaces": recipe.namespaces,
        "model": recipe.model_name,
        "image": engine.image,
        "hub model": engine.read().model,
        "speculative": engine.read().speculative,
        "declares": recipe.declares_speculation,
        "selectors": [selector.strip() for selector in recipe.selectors],
    }


def expected(name: str, image: str, hub_model: str, speculative: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "name": name,
        "namespaces": ("ml-team",),
        "model": name,
        "image": image,
        "hub model": hub_model,
        "speculative": speculative,
        "declares": speculative is not None,
        "selectors": ['device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0'],
    }


@pytest.mark.parametrize(
    "facts_expected",
    [
        expected("qwen3-8b-spec", "vllm/vllm-openai:v0.23.0", "Qwen/Qwen3-8B", NGRAM),
        expected("qwen3-8b-baseline", "vllm/vllm-openai:v0.23.0", "Qwen/Qwen3-8B", None),
        expected("smollm2-135m-spec", "vllm/vllm-openai-cpu:v0.32.0", "HuggingFaceTB/SmolLM2-135M-Instruct", NGRAM),
    ],
    ids=lambda value: value["name"],
)
def test_a_shipped_recipe_says_what_its_name_promises(facts_expected: dict[str, Any]) -> None:
    assert facts(load_recipe(facts_expected["name"])) == facts_expected


@pytest.mark.parametrize("name", recipe_names())
def test_a_shipped_recipe_has_nothing_to_warn_of(name: str) -> None:
    assert [f.line() for f in load_recipe(name).findings if f.severity is not Severity.INFO] == []


def test_the_baseline_differs_in_names_and_in_the_speculative_config_only() -> None:
    spec, baseline = load_recipe("qwen3-8b-spec").manifests, load_recipe("qwen3-8b-baseline").manifests
    text = yaml.safe_dump_all(spec, sort_keys=False, width=1000)
    without = "".join(line for line in text.splitlines(True) if "--speculative-config" not in line)
    assert without != text
    assert list(yaml.safe_load_all(without.replace("qwen3-8b-spec", "qwen3-8b-baseline"))) == list(baseline)


def test_the_small_recipe_speculates_as_the_large_one_does() -> None:
    small, large = (load_recipe(name).engines[0].read().speculative for name in ("smollm2-135m-spec", "qwen3-8b-spec"))
    assert small is not None
    assert small == large
    assert resolve(small) is not None


@pytest.mark.skipif(not SEED.is_dir(), reason=f"no seed documents in {SEED}")
def test_the_seed_page_holds_the_same_deployment_and_service(tmp_path: Path) -> None:
    """The page shows the v0.1.0 form, with prose around the two manifests."""
    (page,) = SEED.glob("000_*.txt")
    blocks = re.findall(r"^apiVersion: .*\n(?:(?:[ a-z#-].*)?\n)*?(?=\n[A-Z#]|\Z)", page.read_text(), re.MULTILINE)
    file = tmp_path / "seed.yaml"
    file.write_text("---\n".join(blocks))
    seed = load_recipe(file)
    assert [f.path for f in seed.findings] == ["ModelDeployment/ml-team/qwen3-8b-spec: spec.engines"]
    assert seed.manifests == load_recipe("qwen3-8b-spec").manifests
