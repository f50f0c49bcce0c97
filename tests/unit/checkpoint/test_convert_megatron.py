"""Megatron-Core's ``torch_dist``: files that Megatron-Core 0.16.1 wrote on two tensor-parallel ranks, and back."""

import json
import tarfile
from pathlib import Path

import pytest
import torch
from unit.checkpoint.convert_samples import equal, values

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form
from emberward.findings import EmberwardError

TAR = Path(__file__).parents[2] / "data" / "megatron_core.tar.xz"
SPLIT = {"word_embeddings.weight": 0, "linear_qkv": 0, "linear_fc1": 0, "linear_proj.weight": 1, "linear_fc2.weight": 1}
OWN = {"input_layernorm.": "self_attention.linear_qkv.layer_norm_", "pre_mlp_layernorm.": "mlp.linear_fc1.layer_norm_"}


@pytest.fixture
def real(tmp_path):
    with tarfile.open(TAR) as tar:
        tar.extractall(tmp_path / "megatron", filter="data")
    return tmp_path / "megatron"


def whole_of_the_ranks(folder):
    """What the ranks' modules held, slices joined and layers stacked, by Megatron's names of the sharded state."""
    ranks = [torch.load(folder / f"local_{rank}.pt", weights_only=False) for rank in range(2)]
    wholes = {}
    for name, first in ranks[0].items():
        if not isinstance(first, torch.Tensor) or "_extra_state" in name or name.startswith("output_layer"):
            continue
        dim = next((dim for part, dim in SPLIT.items() if part in name), None)
        wholes[name] = first if dim is None else torch.cat([rank[name] for rank in ranks], dim)
    stacked = {}
    for name, tensor in wholes.items():
        own = name
        for theirs, ours in OWN.items():
            own = own.replace(theirs, ours)
        if own.startswith("decoder.layers."):
            own = own.replace(".0.", ".", 1).replace(".1.", ".", 1)
            stacked.setdefault(f"model/{own}", []).append(tensor)
        else:
            stacked[f"model/{own}"] = tensor
    return {name: torch.stack(held) if isinstance(held, list) else held for name, held in stacked.items()}


def test_slices_of_two_ranks_are_joined_and_go_back(real, tmp_path):
    made = checkpoint.import_checkpoint(real / "out", tmp_path / "saves", foreign=Foreign())
    expected = whole_of_the_ranks(real)
    assert made.written.path.name == "step-00000007" and len(expected) == 16
    assert equal(weights(values(made.written.path)), expected) == []
    assert all(item.ours for item in made.items)
    result = tmp_path / "again"
    checkpoint.export_checkpoint(made.written.path, result, form=Form.DCP, foreign=Foreign(), num_ranks=2)
    assert equal(weights(values(result)), expected) == []
    assert torch.load(result / "common.pt", weights_only=True) == {
        "iteration": 7, "checkpoint_version": 3.0, "args": {"tp": 2}
    }  # fmt: skip
    assert json.loads((result / "metadata.json").read_text())["sharded_backend"] == "torch_dist"
    (result / "common.pt").unlink()
    with pytest.raises(EmberwardError, match="K110 a file is missing"):
        values(result)


def weights(tensors):
    return {name: tensor for name, tensor in tensors.items() if name.startswith("model/")}
