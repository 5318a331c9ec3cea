from __future__ import annotations

from engine.models import MODELS, is_hybrid, model_facts


def test_sizes_counted_from_the_config_are_those_of_the_model_cards() -> None:
    found = {m.id: (m.parameters, m.kv_bytes_per_token(), m.max_position_embeddings) for m in MODELS.values()}
    assert found == {
        "Qwen/Qwen3-8B": (8_190_735_360, 147_456, 40_960),
        "Qwen/Qwen3-4B": (4_022_468_096, 147_456, 40_960),
        "HuggingFaceTB/SmolLM2-135M-Instruct": (134_515_008, 23_040, 8_192),
    }
    assert MODELS["Qwen/Qwen3-8B"].kv_bytes_per_token(1) == 73_728


def test_a_model_is_found_by_its_hub_id_in_any_case() -> None:
    assert model_facts("qwen/qwen3-8b") is MODELS["Qwen/Qwen3-8B"]
    assert model_facts("Qwen3-8B") is None


def test_families_with_recurrent_layers_are_told_by_name() -> None:
    assert [is_hybrid(name) for name in ("Qwen/Qwen3.5-9B", "Qwen/Qwen3-Next-80B", "Qwen/Qwen3-8B", "x/y")] == [
        True,
        True,
        False,
        False,
    ]
