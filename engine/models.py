"""What is known of the models that the recipes serve, keyed by their id on the Hugging Face hub.

Sizes are those of the models' config.json; parameters are counted from them and agree with the model cards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFacts:
    """A dense decoder: layer sizes in elements, max_position_embeddings in tokens."""

    id: str
    max_position_embeddings: int
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool
    # RMS norms on queries and keys (Qwen3).
    qk_norm: bool = False

    @property
    def parameters(self) -> int:
        """Number of weights."""
        attention = 2 * self.hidden * self.heads * self.head_dim + 2 * self.hidden * self.kv_heads * self.head_dim
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        layer = attention + norms + 3 * self.hidden * self.intermediate
        return self.layers * layer + self.hidden + self.vocab * self.hidden * (1 if self.tied_embeddings else 2)

    def kv_bytes_per_token(self, bytes_per_element: int = 2) -> int:
        """Bytes of KV cache for one token (keys and values of every layer)."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_element


MODELS: dict[str, ModelFacts] = {
    facts.id: facts
    for facts in (
        ModelFacts("Qwen/Qwen3-8B", 40960, 36, 4096, 12288, 32, 8, 128, 151936, tied_embeddings=False, qk_norm=True),
        ModelFacts("Qwen/Qwen3-4B", 40960, 36, 2560, 9728, 32, 8, 128, 151936, tied_embeddings=True, qk_norm=True),
        ModelFacts("HuggingFaceTB/SmolLM2-135M-Instruct", 8192, 30, 576, 1536, 9, 3, 64, 49152, tied_embeddings=True),
    )
}

# Families that mix attention with recurrent layers: n-gram speculation corrupts their output (vLLM issue 39273).
_HYBRID = re.compile(r"(?:^|/)Qwen3(?:\.5|-Next)", re.IGNORECASE)


def model_facts(model: str) -> ModelFacts | None:
    """The facts of a model by its hub id (case as on the hub, or any case), None when it is not known."""
    return MODELS.get(model) or next((facts for key, facts in MODELS.items() if key.lower() == model.lower()), None)


def is_hybrid(model: str) -> bool:
    """Whether the name is of a family with recurrent layers."""
    return bool(_HYBRID.search(model))
