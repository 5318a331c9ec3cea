from __future__ import annotations

import pytest

from engine.fit import GPUS, decode_step_s, gpu_named, predicted_speedup, weights_read
from engine.models import MODELS, ModelFacts

QWEN_8B, QWEN_4B, L4 = MODELS["Qwen/Qwen3-8B"], MODELS["Qwen/Qwen3-4B"], GPUS["L4"]


def test_a_step_reads_every_weight_but_an_embedding_of_its_own() -> None:
    assert weights_read(QWEN_8B) == QWEN_8B.parameters - 151936 * 4096
    assert weights_read(QWEN_4B) == QWEN_4B.parameters  # tied: the table is read as the output layer


# Milliseconds computed by hand from bytes and 300 GB/s.
@pytest.mark.parametrize(
    ("model", "context", "ms"),
    [(QWEN_8B, 0, 50.46), (QWEN_8B, 4096, 52.47), (QWEN_4B, 0, 26.82), (QWEN_4B, 8192, 30.84)],
)
def test_decoding_alone_is_bound_by_memory(model: ModelFacts, context: int, ms: float) -> None:
    assert decode_step_s(model, L4, context=context) * 1000 == pytest.approx(ms, abs=0.01)


def test_drafts_are_free_until_arithmetic_takes_longer_than_reading() -> None:
    ridge = L4.flops / L4.bandwidth  # rows at which both take equally long with two bytes a weight
    assert predicted_speedup(QWEN_8B, L4, tokens_per_step=2.5, rows=6) == pytest.approx(2.5)
    assert predicted_speedup(QWEN_8B, L4, tokens_per_step=2.5, rows=2 * ridge) == pytest.approx(1.25)
    assert predicted_speedup(QWEN_8B, L4, tokens_per_step=1.0, rows=6, sequences=128) < 0.6


def test_a_gpu_is_found_in_any_case() -> None:
    assert gpu_named("l4") is L4
    assert gpu_named("H100") is GPUS["H100"]
    assert gpu_named("GTX 1080") is None
