"""The least time that one decode step of a dense model can take on a GPU: the roofline of memory and arithmetic.

A step reads all weights once, whatever it computes, and the KV cache of every sequence. Verifying drafts adds rows to
the same read, so a step with drafts costs hardly more than one without until arithmetic takes longer than reading.
Left out: attention's own arithmetic, activations, the drafter, kernel launches, graphs. Real steps take longer (a
quarter more is usual), in both arms; so ratios are of more use than times, and a measured time below the roofline is
an error of measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.models import ModelFacts

# bf16: what the recipes serve.
BYTES_PER_WEIGHT = 2
# A multiplication and an addition for each weight and row.
FLOP_PER_WEIGHT = 2


@dataclass(frozen=True)
class Gpu:
    """A GPU: memory bandwidth in bytes/s, dense bf16 arithmetic (fp16 where there is no bf16) in FLOP/s."""

    name: str
    bandwidth: float
    flops: float


# From NVIDIA's data sheets: dense rates, which are half of those printed "with sparsity".
GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("T4", 320e9, 65e12),
        Gpu("L4", 300e9, 121e12),
        Gpu("A10G", 600e9, 70e12),
        Gpu("L40S", 864e9, 362e12),
        Gpu("A100-40GB", 1555e9, 312e12),
        Gpu("A100-80GB", 2039e9, 312e12),
        Gpu("H100", 3350e9, 989e12),
        Gpu("H200", 4800e9, 989e12),
    )
}


def gpu_named(name: str) -> Gpu | None:
    """The GPU of that name in any case, None when it is not in the table."""
    return next((gpu for key, gpu in GPUS.items() if key.lower() == name.lower()), None)


def weights_read(model: ModelFacts) -> int:
    """Weights that a step reads: all but an input embedding of its own, of which it needs a row a token."""
    return model.parameters - (0 if model.tied_embeddings else model.vocab * model.hidden)


def decode_step_s(
    model: ModelFacts, gpu: Gpu, *, context: float = 0, sequences: int = 1, rows: float = 1, kv_bytes: int = 2
) -> float:
    """Least seconds of one decode step.

    context: tokens in the KV cache of each sequence; sequences: decoded together; rows: tokens computed for each, 1
    and its drafts; kv_bytes: of an element of the KV cache (1 for fp8).
    """
    weights = weights_read(model)
    read = weights * BYTES_PER_WEIGHT + sequences * context * model.kv_bytes_per_token(kv_bytes)
    computed = FLOP_PER_WEIGHT * weights * sequences * rows
    return max(read / gpu.bandwidth, computed / gpu.flops)


def predicted_speedup(
    model: ModelFacts, gpu: Gpu, *, tokens_per_step: float, rows: float, context: float = 0, sequences: int = 1
) -> float:
    """How many times faster decoding becomes at most: steps of `rows` tokens yield `tokens_per_step` on average."""
    plain = decode_step_s(model, gpu, context=context, sequences=sequences)
    return tokens_per_step * plain / decode_step_s(model, gpu, context=context, sequences=sequences, rows=rows)
