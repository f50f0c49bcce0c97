"""Step time of the engine against a hand-written loop of torch's own parts, same model, layout and batch.

    python benchmarks/engine_overhead.py [--steps 20]

Both run in the same processes and take turns step by step, so that the machine's noise falls on both. The hand-written
loop is what one would write today: DTensor tensor parallelism with sequence parallelism by `parallelize_module`,
FSDP2, torch's `PipelineStage` under `Schedule1F1B`, AdamW over DTensors, clipping by a hand-made norm.
"""

import argparse
import functools
import math
import statistics
import sys
import warnings
from collections import OrderedDict
from pathlib import Path

import torch
import torch.distributed as dist
from steps import batches_of, publish, start_ranks, timed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from emberward.data import open_tokenizer
from emberward.engine import Engine, MicroBatch, World, build_world
from emberward.families import ModelConfig
from emberward.families.bloom.modules import alibi_slopes
from emberward.layout import Axis
from emberward.recipe import Recipe, layers_of_stages, load_recipe, mesh_of, resolve

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import add_options

RANKS, WARM_UP = 8, 3


class HandAttention(nn.Module):
    """BLOOM's attention of plain linear layers; `first_head` is where this rank's heads begin."""

    def __init__(self, config: ModelConfig, first_head: int, num_heads: int) -> None:
        super().__init__()
        self.head_size = config.hidden // config.num_heads
        self.qkv, self.out = nn.Linear(config.hidden, 3 * config.hidden), nn.Linear(config.hidden, config.hidden)
        steps = torch.arange(config.seq_len, dtype=torch.float32)
        slopes = torch.tensor(alibi_slopes(config.num_heads)[first_head : first_head + num_heads])
        bias = slopes.view(1, -1, 1, 1) * (steps - steps[:, None])
        self.bias = bias.masked_fill(steps[:, None] < steps, float("-inf"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The attention's contribution to the residual stream."""
        mixed = self.qkv(x)
        batch, length, width = mixed.shape
        q, k, v = mixed.view(batch, length, -1, 3, self.head_size).permute(3, 0, 2, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        return self.out(y.transpose(1, 2).reshape(batch, length, width // 3))


class HandBlock(nn.Module):
    """A decoder layer of plain torch."""

    def __init__(self, config: ModelConfig, first_head: int, num_heads: int) -> None:
        super().__init__()
        ffn = config.ffn_hidden or 4 * config.hidden
        self.attention_norm, self.mlp_norm = nn.LayerNorm(config.hidden), nn.LayerNorm(config.hidden)
        self.attention = HandAttention(config, first_head, num_heads)
        self.mlp = nn.Sequential(
            OrderedDict(up=nn.Linear(config.hidden, ffn), gelu=nn.GELU("tanh"), down=nn.Linear(ffn, config.hidden))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual stream after this layer."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class HandStage(nn.Module):
    """A stage of plain torch."""

    def __init__(self, recipe: Recipe, world: World) -> None:
        super().__init__()
        config, layers, index = recipe.model, layers_of_stages(recipe), world.at(Axis.PP)
        self.is_first, self.is_last = index == 0, index == len(layers) - 1
        num_heads = config.num_heads // world.size(Axis.TP)
        first_head = world.at(Axis.TP) * num_heads
        if self.is_first:
            self.embed = nn.Embedding(config.vocab_size or 0, config.hidden)
            self.embed_norm = nn.LayerNorm(config.hidden)
        self.blocks = nn.ModuleList(HandBlock(config, first_head, num_heads) for _ in layers[index])
        if self.is_last:
            self.final_norm = nn.LayerNorm(config.hidden)
            self.head = nn.Linear(config.hidden, config.vocab_size or 0, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Token ids on the first stage, else the residual stream; gives logits on the last."""
        if self.is_first:
            x = self.embed_norm(self.embed(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x)) if self.is_last else x


def hand_stage(recipe: Recipe, world: World) -> HandStage:
    """This rank's stage, parallel by torch's own means."""
    stage = HandStage(recipe, world)
    axes = dict(world.mesh.axes)
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axis.value for axis in axes))
    tp = mesh["tp"]
    to_whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    for block in stage.blocks:
        plan = {
            "attention_norm": SequenceParallel(use_local_output=True),
            "attention": to_whole,
            "attention.qkv": ColwiseParallel(),
            "attention.out": RowwiseParallel(output_layouts=Shard(1)),
            "mlp_norm": SequenceParallel(use_local_output=True),
            "mlp": to_whole,
            "mlp.up": ColwiseParallel(),
            "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(block, tp, plan)
    outer: dict[str, object] = {}
    if stage.is_first:
        outer["embed"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
        outer["embed_norm"] = SequenceParallel(use_local_output=True)
    if stage.is_last:
        outer["final_norm"] = SequenceParallel(use_local_output=True)
        outer["head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    parallelize_module(stage, tp, outer)
    with torch.no_grad():
        for name, param in stage.named_parameters():
            param.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            if param.dim() > 1:
                torch.nn.init.normal_(param, std=recipe.model.init_std)
    for block in stage.blocks:
        fully_shard(block, mesh=mesh["dp_shard"], reshard_after_forward=False)
    fully_shard(stage, mesh=mesh["dp_shard"], reshard_after_forward=False)
    return stage


class HandLoop:
    """A training step of torch's own parts."""

    def __init__(self, recipe: Recipe, world: World) -> None:
        self.world, self.recipe = world, recipe
        self.stage = hand_stage(recipe, world)
        index, size = world.at(Axis.PP), world.size(Axis.PP)
        pipe = world.channels["pp"].handle
        part = PipelineStage(self.stage, index, size, world.device, group=pipe)
        self.schedule = Schedule1F1B(part, recipe.batch.accumulation or 1, loss_fn=self._loss)
        self.adamw = torch.optim.AdamW(self.stage.parameters(), lr=1e-3, foreach=True)

    @staticmethod
    def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def step(self, batches: list[MicroBatch]) -> None:
        """One step over the micro-batches."""
        tokens = torch.cat([batch.inputs for batch in batches])
        labels = torch.cat([batch.labels for batch in batches])
        losses: list[torch.Tensor] = []
        if self.world.at(Axis.PP) == 0:
            self.schedule.step(tokens)
        else:
            self.schedule.step(target=labels, losses=losses)
        square = torch.zeros((), dtype=torch.float64)
        for param in self.stage.parameters():
            grad = param.grad._local_tensor if isinstance(param.grad, DTensor) else param.grad
            square += grad.double().square().sum()
        dist.all_reduce(square, group=self.world.channels["world"].handle)
        scale = min(1.0, 1.0 / (math.sqrt(float(square)) + 1e-6))
        for param in self.stage.parameters():
            param.grad.mul_(scale)
        self.adamw.step()
        self.adamw.zero_grad()


def measure(steps: int) -> dict[str, object] | None:
    """On rank 0 the figures, elsewhere None."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    loaded = load_recipe("bloom_tiny", [])
    recipe = resolve(loaded, num_ranks=RANKS, tokenizer_size=open_tokenizer("byte").size).recipe
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=120)
    engine, hand = Engine(recipe, world), HandLoop(recipe, world)
    batches = batches_of(recipe)
    times: dict[str, list[float]] = {"engine": [], "hand": []}
    for step in range(steps + WARM_UP):
        # The order alternates so that neither always runs after the other.
        turns = [
            ("engine", functools.partial(engine.train_step, batches, lr=1e-3, step=step)),
            ("hand", lambda: hand.step(batches)),
        ]
        for name, call in turns if step % 2 else reversed(turns):
            seconds = timed(call)
            if step >= WARM_UP:
                times[name].append(seconds)
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank != 0:
        return None
    ratios = [ours / theirs for ours, theirs in zip(times["engine"], times["hand"], strict=True)]
    return {
        "layout": "dp2 x tp2 x pp2, 1f1b, ZeRO-1, bloom_tiny",
        "num_paired_steps": steps,
        "engine_step_s_median": statistics.median(times["engine"]),
        "hand_written_step_s_median": statistics.median(times["hand"]),
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "overhead_percent": 100 * (statistics.median(ratios) - 1),
    }


def main() -> None:
    """Starts the ranks, or is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    add_options(parser)
    options = parser.parse_args()
    start_ranks(RANKS)
    figures = measure(options.steps)
    if figures is not None:
        publish(
            "engine_overhead",
            figures,
            what="a step of the engine against one written by hand of torch's parts, in turns",
            measures=["src/emberward/engine", "src/emberward/plan"],
            options=options,
        )


if __name__ == "__main__":
    main()
