"""What the plan says a layer keeps is what autograd keeps of it, measured on the engine's own modules."""

from dataclasses import replace

import pytest
import torch

from emberward.engine import StageModule, kept_by_layers
from emberward.engine._shard import materialise
from emberward.families import LlamaConfig, ModelConfig, RobertaConfig, model_of
from emberward.families.layers import WeightQueue, defer_weights
from emberward.plan import Tiling, late_bytes

CONFIG = ModelConfig(num_layers=2, hidden=64, num_heads=4, ffn_hidden=256, vocab_size=128, seq_len=32, init_std=0.1)
BATCH = 2
ALLOWED = 0.02
"""Share by which the plan may differ from what was kept."""


def stage_of(config: ModelConfig, dtype: torch.dtype) -> StageModule:
    """The two layers of the model, with values."""
    stage = StageModule(config, range(1, 3), None)
    materialise(stage, torch.device("cpu"))
    stage.to(dtype)
    for param in stage.parameters():
        torch.nn.init.normal_(param, std=0.1)
    return stage


def tiling_of(dtype: torch.dtype) -> Tiling:
    return Tiling(micro_batch=BATCH, tp=1, sequence_parallel=False, compute_bytes=dtype.itemsize, recompute=False)


LLAMA = replace(CONFIG, family="llama", llama=LlamaConfig(num_kv_heads=2))
WIDE = replace(CONFIG, family="llama", llama=LlamaConfig(num_kv_heads=2, head_size=48))


ROBERTA = replace(CONFIG, family="roberta", roberta=RobertaConfig(mask_id=127, num_positions=34))
FOLDED = replace(CONFIG, seq_len=1024)
DROPPED = replace(ROBERTA, dropout=0.1, attention_dropout=0.1)


@pytest.mark.parametrize(
    "config",
    [CONFIG, FOLDED, LLAMA, WIDE, ROBERTA, DROPPED],
    ids=["bloom", "folded", "llama", "wide heads", "roberta", "dropout"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_keeps_what_the_plan_says(dtype, config):
    layers = kept_by_layers(config, micro_batch=BATCH, dtype=dtype)
    assert len(layers) == config.num_layers
    for layer in layers:
        assert layer.declared_bytes == pytest.approx(layer.kept_bytes, rel=ALLOWED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("recompute", [False, True])
def test_between_the_parts_of_a_backward_a_stage_holds_what_the_plan_says_and_gets_the_same_gradients(dtype, recompute):
    stage = stage_of(replace(CONFIG, recompute=recompute), dtype)
    x = torch.randn(BATCH, CONFIG.seq_len, CONFIG.hidden, dtype=dtype, requires_grad=True)
    grad = torch.randn_like(x)
    stage(x, None).backward(grad)
    whole = {name: param.grad for name, param in (*stage.named_parameters(), ("x", x))}
    x.grad = None
    stage.zero_grad(set_to_none=True)
    queue = WeightQueue()
    defer_weights(stage.layers, queue)
    output = stage(x, None)
    with queue.collecting(0, 0):
        output.backward(grad)
    late = {name for name, param in stage.named_parameters() if param.grad is None}
    assert late == {name for name, param in stage.named_parameters() if param.dim() == 2}
    held = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in queue.tensors()}
    planned = sum(late_bytes(layer, tiling_of(dtype)) for layer in model_of(CONFIG).layers)
    assert planned == pytest.approx(sum(held.values()), rel=ALLOWED)
    queue.run(0, 0)
    assert not list(queue.tensors())
    bound = 1e-5 if dtype is torch.float32 else 2e-2
    for name, param in (*stage.named_parameters(), ("x", x)):
        assert (param.grad - whole[name]).norm() <= bound * whole[name].norm(), name


def test_a_backward_outside_the_queue_is_whole():
    stage = stage_of(CONFIG, torch.float32)
    defer_weights(stage.layers, WeightQueue())
    x = torch.randn(BATCH, CONFIG.seq_len, CONFIG.hidden, requires_grad=True)
    stage(x, None).sum().backward()
    assert all(param.grad is not None for param in stage.parameters())
