"""Which names vLLM knows in which version: flags, keys and methods of the speculative config, metrics.

Part of the version table (engine/versions.py). Not every version was read, so a name has three states: present,
absent, and not established (between the last version read without it and the first read with it).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.versions import Version


class Presence(Enum):
    """Whether a version knows a name."""

    PRESENT = "present"
    ABSENT = "absent"
    NOT_ESTABLISHED = "not established"


@dataclass(frozen=True)
class Span:
    """The versions that know a name.

    absent_in: the newest version read without it before it came; first: the oldest read with it;
    last: the newest read with it; gone_in: the oldest read without it after it went. None: no such version.
    """

    absent_in: Version | None = None
    first: Version | None = None
    last: Version | None = None
    gone_in: Version | None = None

    def at(self, version: Version) -> Presence:
        """Whether the version knows the name (patch releases count as their minor release)."""
        minor = Version(version.major, version.minor)
        if self.first and minor < self.first:
            return Presence.ABSENT if self.absent_in and minor <= self.absent_in else Presence.NOT_ESTABLISHED
        if self.gone_in and minor >= self.gone_in:
            return Presence.ABSENT
        if self.gone_in and self.last and minor > self.last:
            return Presence.NOT_ESTABLISHED
        return Presence.PRESENT

    def since_text(self) -> str:
        """When it came and went, for a message: "from 0.23", "up to 0.16"."""
        parts = []
        if self.first:
            parts.append(f"from {self.first.major}.{self.first.minor}")
        if self.last:
            parts.append(f"up to {self.last.major}.{self.last.minor}")
        return " ".join(parts) or "in all versions"


def _v(minor: int) -> Version:
    return Version(0, minor)


def _came(absent_in: int, first: int) -> Span:
    return Span(absent_in=_v(absent_in), first=_v(first))


def _went(last: int, gone_in: int) -> Span:
    return Span(last=_v(last), gone_in=_v(gone_in))


ALWAYS = Span()

# Flags that not every version has. Any other flag is taken to exist.
FLAGS: dict[str, Span] = {
    "default-chat-template-kwargs": _came(13, 14),
    "disable-log-requests": _went(16, 18),
    "spec-method": _came(20, 23),
    "spec-model": _came(20, 23),
    "spec-tokens": _came(20, 23),
    "sc": _came(18, 20),
    "per-request-spec-decode-metrics": _came(26, 29),
    "enable-per-request-metrics": _came(23, 26),
}

# Fields of SpeculativeConfig that a user may set (config/speculative.py).
SPECULATIVE_KEYS: dict[str, Span] = {
    "method": ALWAYS,
    "model": ALWAYS,
    "num_speculative_tokens": ALWAYS,
    "enforce_eager": ALWAYS,
    "draft_tensor_parallel_size": ALWAYS,
    "quantization": ALWAYS,
    "moe_backend": _came(11, 23),
    "attention_backend": _came(11, 23),
    "kv_cache_dtype": _came(23, 32),
    "max_model_len": ALWAYS,
    "revision": ALWAYS,
    "code_revision": ALWAYS,
    "index_share_for_mtp_iteration": _came(23, 32),
    "disable_by_batch_size": _went(11, 23),
    "disable_padded_drafter_batch": ALWAYS,
    "disable_eagle_block_drop": _came(23, 32),
    "use_local_argmax_reduction": _came(11, 23),
    "use_heterogeneous_vocab": _came(23, 32),
    "prompt_lookup_max": ALWAYS,
    "prompt_lookup_min": ALWAYS,
    "parallel_drafting": _came(11, 23),
    "speculative_token_tree": _went(11, 23),
    "num_speculative_tokens_per_batch_size": _came(23, 26),
    "suffix_decoding_max_tree_depth": ALWAYS,
    "suffix_decoding_max_cached_requests": ALWAYS,
    "suffix_decoding_max_spec_factor": ALWAYS,
    "suffix_decoding_min_token_prob": ALWAYS,
    "draft_load_config": _came(11, 23),
    "rejection_sample_method": _came(11, 23),
    "synthetic_acceptance_rates": _came(11, 23),
    "synthetic_acceptance_length": _came(11, 23),
    "draft_sample_method": _came(11, 23),
    "enable_adaptive_verification": _came(23, 32),
    "dspark_draft_topk": _came(23, 32),
    "fly_window_size": _came(32, 33),
    "fly_entropy_threshold": _came(32, 33),
    "fly_entropy_top_k": _came(32, 33),
    "xpress_topc": _came(32, 33),
    "disable_lookahead_block_hashes": _came(32, 33),
    "draft_lm_head_quantization": _came(32, 33),
}
# Filled in by the engine itself; never in a manifest.
ENGINE_KEYS = frozenset(
    {"target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config"}
)

_MTP_11 = [
    "deepseek_mtp",
    "mimo_mtp",
    "glm4_moe_mtp",
    "ernie_mtp",
    "qwen3_next_mtp",
    "longcat_flash_mtp",
    "pangu_ultra_moe_mtp",
]
_MTP_23 = [
    "mimo_v2_mtp",
    "glm4_moe_lite_mtp",
    "glm_ocr_mtp",
    "nemotron_h_mtp",
    "exaone_moe_mtp",
    "exaone4_5_mtp",
    "qwen3_5_mtp",
    "step3p5_mtp",
    "hy_v3_mtp",
    "gemma4_mtp",
]
_MTP_32 = [
    "dots3_note_mtp",
    "qwen4_exp_mtp",
    "bailing_hybrid_v3_mtp",
    "minimax_m3_mtp",
    "bailing_hybrid_mtp",
    "kimi_k3_mtp",
    "hy_v4_mtp",
    "inkling_mtp",
    "glm5_next_mtp",
]
# Old names of method "mtp": rewritten by the engine with a deprecation warning.
MTP_NAMES = frozenset({*_MTP_11, *_MTP_23, *_MTP_32, "step5_mtp"})

METHODS: dict[str, Span] = {
    "ngram": ALWAYS,
    "suffix": ALWAYS,
    "ngram_gpu": _came(16, 18),
    "custom_class": _came(11, 23),
    "extract_hidden_states": _came(11, 23),
    "medusa": _went(32, 33),
    "mlp_speculator": _went(32, 33),
    "draft_model": ALWAYS,
    "eagle": ALWAYS,
    "eagle3": ALWAYS,
    "dflash": _came(11, 23),
    "dspark": _came(23, 32),
    "mtp": ALWAYS,
    **dict.fromkeys(_MTP_11, ALWAYS),
    **dict.fromkeys(_MTP_23, _came(11, 23)),
    **dict.fromkeys(_MTP_32, _came(23, 32)),
    "step5_mtp": _came(32, 33),
}
NGRAM_METHODS = frozenset({"ngram", "ngram_gpu"})
NEEDS_MODEL = frozenset({"eagle", "eagle3", "medusa", "mlp_speculator", "draft_model", "dflash", "custom_class"})

# Metric families as /metrics exposes them (counters with _total), without the histograms' _bucket/_count/_sum.
METRICS: dict[str, Span] = {
    "vllm:spec_decode_num_drafts_total": ALWAYS,
    "vllm:spec_decode_num_draft_tokens_total": ALWAYS,
    "vllm:spec_decode_num_accepted_tokens_total": ALWAYS,
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": ALWAYS,
    "vllm:num_requests_running": ALWAYS,
    "vllm:num_requests_waiting": ALWAYS,
    "vllm:num_requests_waiting_by_reason": _came(11, 23),
    "vllm:kv_cache_usage_perc": ALWAYS,
    "vllm:gpu_cache_usage_perc": _went(11, 23),
    "vllm:prefix_cache_queries_total": ALWAYS,
    "vllm:prefix_cache_hits_total": ALWAYS,
    "vllm:prompt_tokens_total": ALWAYS,
    "vllm:prompt_tokens_cached_total": _came(11, 23),
    "vllm:generation_tokens_total": ALWAYS,
    "vllm:num_preemptions_total": ALWAYS,
    "vllm:request_success_total": ALWAYS,
    "vllm:cache_config_info": ALWAYS,
    "vllm:iteration_tokens_total": ALWAYS,
    "vllm:time_to_first_token_seconds": ALWAYS,
    "vllm:inter_token_latency_seconds": ALWAYS,
    "vllm:time_per_output_token_seconds": _went(11, 23),
    "vllm:request_time_per_output_token_seconds": ALWAYS,
    "vllm:e2e_request_latency_seconds": ALWAYS,
    "vllm:request_queue_time_seconds": ALWAYS,
    "vllm:request_inference_time_seconds": ALWAYS,
    "vllm:request_prefill_time_seconds": ALWAYS,
    "vllm:request_decode_time_seconds": ALWAYS,
    "vllm:request_prompt_tokens": ALWAYS,
    "vllm:request_generation_tokens": ALWAYS,
}


def presence(names: dict[str, Span], name: str, version: Version) -> Presence:
    """Whether the version knows a name of one of the tables above; a name in none of them is absent."""
    span = names.get(name)
    return span.at(version) if span else Presence.ABSENT
