"""BLOOM weights in Hugging Face's form: names, configuration, one folder that transformers loads.

Source: transformers 5.23, models/bloom/modeling_bloom.py and configuration_bloom.py.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from emberward.engine._bloom import BloomShape, BloomStage, canonical_name
from emberward.findings import EmberwardError

_OUTER = {"embed": "word_embeddings", "embed_norm": "word_embeddings_layernorm", "final_norm": "ln_f"}
_INNER = {
    "attention_norm": "input_layernorm",
    "attention.qkv": "self_attention.query_key_value",
    "attention.out": "self_attention.dense",
    "mlp_norm": "post_attention_layernorm",
    "mlp.up": "mlp.dense_h_to_4h",
    "mlp.down": "mlp.dense_4h_to_h",
}
_BLOCK = re.compile(r"blocks\.(\d+)\.(.+)\.(weight|bias)")


def hf_name(name: str) -> str:
    """Hugging Face's name of the parameter that a checkpoint calls `name`."""
    found = _BLOCK.fullmatch(name)
    if found is not None:
        return f"transformer.h.{found[1]}.{_INNER[found[2]]}.{found[3]}"
    outer, _, kind = name.rpartition(".")
    return f"transformer.{_OUTER[outer]}.{kind}"


def hf_config(shape: BloomShape, *, eod: int | None = None) -> dict[str, object]:
    """The configuration that transformers reads. Raises EmberwardError K102 for a model that BLOOM cannot express."""
    if shape.ffn_hidden != 4 * shape.hidden:
        raise EmberwardError(
            "this model has no Hugging Face BLOOM form",
            code="K102",
            where="model.ffn_hidden",
            expected=f"4 x hidden = {4 * shape.hidden}, which transformers' BLOOM takes for granted",
            found=str(shape.ffn_hidden),
        )
    return {
        "architectures": ["BloomForCausalLM"],
        "model_type": "bloom",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden,
        "n_layer": shape.num_layers,
        "n_head": shape.num_heads,
        "layer_norm_epsilon": shape.layer_norm_eps,
        "initializer_range": shape.init_std,
        "apply_residual_connection_post_layernorm": False,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "bos_token_id": eod,
        "eos_token_id": eod,
        "pad_token_id": eod,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }


def export_hf(parameters: Mapping[str, Tensor], shape: BloomShape, folder: Path, *, eod: int | None = None) -> None:
    """Writes whole `parameters` (checkpoint names) as a folder that transformers loads; replaces nothing half-way."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    aside.mkdir(parents=True)
    tensors = {hf_name(name): tensor.detach().contiguous().clone() for name, tensor in parameters.items()}
    save_file(tensors, aside / "model.safetensors", metadata={"format": "pt"})
    (aside / "config.json").write_text(json.dumps(hf_config(shape, eod=eod), indent=2) + "\n", encoding="utf-8")
    aside.rename(folder)


def parameter_shapes(shape: BloomShape) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter of the whole model. Takes no memory."""
    with torch.device("meta"):
        whole = BloomStage(shape, range(shape.num_layers), is_first=True, is_last=True)
    return {canonical_name(name): tuple(param.shape) for name, param in whole.named_parameters()}
