from __future__ import annotations

import pytest

from engine.speculative import SpeculativeConfig, check_speculative, resolve
from engine.versions import EngineVersion

V11, V23, V26, V32, V33 = (EngineVersion.of_text(text) for text in ("0.11.2", "0.23.0", "0.26.0", "0.32.0", "0.33.0"))
NGRAM: dict[str, object] = {
    "method": "ngram",
    "num_speculative_tokens": 5,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}


def check(raw: dict[str, object], version: EngineVersion = V23, *, allow_wide_window: bool = False) -> list[str]:
    return [finding.line() for finding in check_speculative(raw, version, allow_wide_window=allow_wide_window)]


def ngram(**changes: object) -> dict[str, object]:
    return {key: value for key, value in {**NGRAM, **changes}.items() if value is not None}


@pytest.mark.parametrize("version", [V11, V23, V26, V32, V33])
def test_the_seeds_config_is_fine_everywhere(version: EngineVersion) -> None:
    assert check(NGRAM, version) == []


@pytest.mark.parametrize(
    ("raw", "effective"),
    [
        (NGRAM, SpeculativeConfig("ngram", 5, 2, 4)),
        (ngram(prompt_lookup_min=None, prompt_lookup_max=None), SpeculativeConfig("ngram", 5, 5, 5)),
        (ngram(prompt_lookup_min=None), SpeculativeConfig("ngram", 5, 4, 4)),
        (ngram(prompt_lookup_max=None), SpeculativeConfig("ngram", 5, 2, 2)),
        (ngram(method="ngram_gpu"), SpeculativeConfig("ngram_gpu", 5, 2, 4)),
        (ngram(method=None, model="[ngram]"), SpeculativeConfig("ngram", 5, 2, 4)),
        (ngram(prompt_lookup_min=8), None),
        (ngram(prompt_lookup_min=0), None),
        (ngram(num_speculative_tokens=0), None),
        (ngram(num_speculative_tokens="5"), None),
        (ngram(num_speculative_tokens=True), None),
        (ngram(num_speculative_tokens=None), None),
        ({"num_speculative_tokens": 5}, None),
        ({}, None),
        ({"method": "suffix"}, SpeculativeConfig("suffix", 24)),
        ({"method": "suffix", "suffix_decoding_max_tree_depth": 10}, SpeculativeConfig("suffix", 10)),
        ({"method": "qwen3_next_mtp", "num_speculative_tokens": 2}, SpeculativeConfig("mtp", 2)),
        (
            {"model": "some/draft", "num_speculative_tokens": 3, "prompt_lookup_max": 9},
            SpeculativeConfig("draft_model", 3, model="some/draft"),
        ),
    ],
)
def test_defaults_are_filled_in_as_vllm_does(raw: dict[str, object], effective: SpeculativeConfig | None) -> None:
    assert resolve(raw) == effective


@pytest.mark.parametrize(
    ("raw", "version", "said"),
    [
        (
            ngram(num_speculative_tokens=0),
            V23,
            "error: speculative_config.num_speculative_tokens: 0: it must be at least 1; vLLM would not start; give 1 "
            "or more, or remove the config",
        ),
        (
            ngram(num_speculative_tokens=129),
            V23,
            "error: speculative_config.num_speculative_tokens: 129: more than 128 drafts of a request fail an "
            "assertion of the sampler at run time; give at most 128; 3 to 8 is usual for n-gram",
        ),
        (
            ngram(num_speculative_tokens="5"),
            V23,
            "error: speculative_config.num_speculative_tokens: 5: it must be a JSON integer (vLLM would convert some "
            "values); write a number such as 5",
        ),
        (
            ngram(num_speculative_tokens=True),
            V23,
            "error: speculative_config.num_speculative_tokens: True: it must be a JSON integer (vLLM would convert "
            "some values); write a number such as 5",
        ),
        (
            ngram(num_speculative_tokens=None),
            V23,
            "error: speculative_config.num_speculative_tokens: it is missing; vLLM would not start; give it, such as 5",
        ),
        (
            ngram(prompt_lookup_max=0),
            V23,
            "error: speculative_config.prompt_lookup_max: 0: it must be a JSON integer of at least 1; vLLM would not "
            "start; give a number such as 4",
        ),
        (
            ngram(prompt_lookup_max="4"),
            V23,
            "error: speculative_config.prompt_lookup_max: 4: it must be a JSON integer of at least 1; vLLM would not "
            "start; give a number such as 4",
        ),
        (
            ngram(prompt_lookup_mim=2),
            V11,
            "error: speculative_config.prompt_lookup_mim: 2: unknown key; vLLM 0.11.2 would drop it without a word; "
            "did you mean prompt_lookup_min?",
        ),
        (
            ngram(zzz=1),
            V23,
            "error: speculative_config.zzz: 1: unknown key; vLLM 0.23.0 would not start; remove it",
        ),
        (
            ngram(target_model_config={}),
            V23,
            "error: speculative_config.target_model_config: {}: the engine fills it in itself; remove it",
        ),
        (
            ngram(tensor_parallel_size=1),
            V11,
            "error: speculative_config.tensor_parallel_size: 1: vLLM 0.11.2 would drop it without a word; name it "
            "draft_tensor_parallel_size",
        ),
        (
            ngram(tensor_parallel_size=1),
            V32,
            "error: speculative_config.tensor_parallel_size: 1: vLLM 0.32.0 refuses it; name it "
            "draft_tensor_parallel_size",
        ),
        (
            ngram(moe_backend="auto"),
            V11,
            "error: speculative_config.moe_backend: auto: vLLM 0.11.2 does not know this key (from 0.23) and would "
            "drop it without a word; remove it, or take another version",
        ),
        (
            ngram(kv_cache_dtype="auto"),
            V26,
            "warning: speculative_config.kv_cache_dtype: auto: it is not established that vLLM 0.26.0 knows this key "
            "(from 0.32); check the engine's start-up log",
        ),
        (
            ngram(disable_by_batch_size=8),
            V11,
            "warning: speculative_config.disable_by_batch_size: 8: it has no effect (vLLM issue 25112); remove it",
        ),
        (
            ngram(method="[ngram]"),
            V23,
            'error: speculative_config.method: [ngram]: vLLM 0.23.0 has no such method; write "ngram"',
        ),
        (
            ngram(method="ngram_gpu"),
            V11,
            "error: speculative_config.method: ngram_gpu: vLLM 0.11.2 has no such method; use a method of this "
            "version, such as ngram",
        ),
        (
            ngram(method=3),
            V23,
            "error: speculative_config.method: 3: vLLM 0.23.0 has no such method; use a method of this version, such "
            "as ngram",
        ),
        (
            ngram(method=None),
            V23,
            "error: speculative_config.method: neither a method nor a model is given; vLLM: num_speculative_tokens was "
            'provided but without speculative model.; give "method": "ngram"',
        ),
        (
            {"method": "draft_model", "model": "a/b", "num_speculative_tokens": 5},
            V11,
            "error: speculative_config.method: draft_model: vLLM 0.11.2: Speculative decoding with draft model is not "
            "supported yet.; use ngram, or vLLM 0.23 or newer",
        ),
        (
            {"method": "eagle3", "num_speculative_tokens": 5},
            V23,
            "error: speculative_config.model: it needs a draft model; vLLM 0.23.0 would not start; name the draft "
            "model",
        ),
        (
            {"method": "mtp", "num_speculative_tokens": 5, "prompt_lookup_max": 4},
            V23,
            "warning: speculative_config.prompt_lookup_max: 4: only the n-gram methods use it; remove it",
        ),
        (
            {"method": "mimo_mtp", "num_speculative_tokens": 5},
            V23,
            'warning: speculative_config.method: mimo_mtp: this name is deprecated; write "mtp"',
        ),
        (
            {"method": "mtp"},
            V23,
            "warning: speculative_config.num_speculative_tokens: it is missing; vLLM takes the draft model's n_predict "
            "or does not start; give it",
        ),
        (
            ngram(rejection_sample_method="synthetic", synthetic_acceptance_length=3),
            V23,
            "warning: speculative_config.rejection_sample_method: synthetic: drafts are accepted by chance, not by the "
            "model: the answers are wrong on purpose; use it for load tests only",
        ),
    ],
)
def test_what_vllm_would_refuse_is_said_before(raw: dict[str, object], version: EngineVersion, said: str) -> None:
    assert check(raw, version)[:1] == [said]


@pytest.mark.parametrize(
    ("version", "does"),
    [
        (V11, "would drop a key with hyphens without a word"),
        (V23, "refuses a key with hyphens"),
        (V26, "may refuse a key with hyphens"),
        (V32, "takes it, but older versions drop or refuse a key with hyphens"),
    ],
)
def test_keys_with_hyphens_are_always_refused_with_what_the_version_would_do(version: EngineVersion, does: str) -> None:
    raw = {"method": "ngram", "num_speculative_tokens": 5, "prompt-lookup-max": 4, "prompt_lookup_min": 2}
    assert check(raw, version)[0] == (
        f"error: speculative_config.prompt-lookup-max: 4: {version} {does}; write prompt_lookup_max"
    )


def test_suffix_bounds_are_checked() -> None:
    raw: dict[str, object] = {
        "method": "suffix",
        "num_speculative_tokens": 8,
        "suffix_decoding_max_tree_depth": 0,
        "suffix_decoding_max_cached_requests": 0,
        "suffix_decoding_max_spec_factor": -1.0,
        "suffix_decoding_min_token_prob": 1.5,
    }
    assert check(raw) == [
        "warning: speculative_config.method: suffix: it needs the package arctic-inference in the image; use an image "
        "that has it",
        "error: speculative_config.suffix_decoding_max_tree_depth: 0: it must be >= 1; vLLM would not start; correct "
        "it",
        "error: speculative_config.suffix_decoding_max_spec_factor: -1.0: it must be >= 0; vLLM would not start; "
        "correct it",
        "error: speculative_config.suffix_decoding_min_token_prob: 1.5: it must be in [0, 1]; vLLM would not start; "
        "correct it",
    ]
