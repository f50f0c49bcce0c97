"""What the plan says a layer keeps is what autograd keeps of it, measured on the engine's own modules."""

import pytest
import torch

from emberward.engine._bloom import BloomShape, BloomStage
from emberward.layout import Decoder
from emberward.plan import Tiling, layer_bytes

SHAPE = BloomShape(
    num_layers=2, hidden=64, num_heads=4, ffn_hidden=256, vocab_size=128, seq_len=32, layer_norm_eps=1e-5, init_std=0.1
)
BATCH = 2
ALLOWED = 0.02
"""Share by which the plan may differ from what was kept."""


def kept_bytes(module: torch.nn.Module, x: torch.Tensor, *, spared: set[int]) -> int:
    """Bytes of the distinct storages that autograd saved, without parameters and what is in `spared`."""
    found: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in spared:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module(x)
    assert output.requires_grad
    return sum(found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_keeps_what_the_plan_says(dtype):
    stage = BloomStage(SHAPE, range(2), is_first=False, is_last=False).to(dtype)
    block = stage.blocks["0"]
    x = torch.randn(BATCH, SHAPE.seq_len, SHAPE.hidden, dtype=dtype, requires_grad=True)
    block(x)  # makes ALiBi's bias, which the plan counts as a buffer
    spared = {param.untyped_storage().data_ptr() for param in stage.parameters()}
    spared.add(block.attention._bias.untyped_storage().data_ptr())
    decoder = Decoder(
        num_layers=2, hidden=SHAPE.hidden, num_heads=SHAPE.num_heads, ffn_hidden=SHAPE.ffn_hidden,
        vocab_size=SHAPE.vocab_size, seq_len=SHAPE.seq_len,
    )  # fmt: skip
    tiling = Tiling(micro_batch=BATCH, tp=1, sequence_parallel=False, compute_bytes=dtype.itemsize, recompute=False)
    found = kept_bytes(block, x, spared=spared)
    assert layer_bytes(decoder, tiling) == pytest.approx(found, rel=ALLOWED)
