"""Inputs that several tests share, and the real samples of vLLM when the checkout has them beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import settings

# The speculating engine of the project's first document.
NGRAM: dict[str, object] = {
    "method": "ngram",
    "num_speculative_tokens": 5,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
JSON = json.dumps(NGRAM)
SEED = [
    "--model=Qwen/Qwen3-8B",
    "--served-model-name=qwen3-8b-spec",
    "--max-model-len=16384",
    "--gpu-memory-utilization=0.92",
    f"--speculative-config={JSON}",
    '--default-chat-template-kwargs={"enable_thinking": false}',
]
# Enough beside the tables of cases, and the whole folder stays at a few seconds; the same examples in every run.
FEW = settings(max_examples=60, deadline=None, derandomize=True)
DATA = Path(__file__).parent / "data"
_SAMPLES = Path(__file__).parents[3] / "shared" / "vllm-samples"


def sample(name: str) -> str:
    """A file of the real samples; skips the test when they are not there."""
    path = _SAMPLES / name
    if not path.exists():
        pytest.skip(f"the real samples of vLLM are not beside this checkout ({name})")
    return path.read_text()


def own(name: str) -> str:
    """A file of tests/engine/data."""
    return (DATA / name).read_text()
