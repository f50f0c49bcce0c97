"""Step time of the engine against a hand-written loop of torch's own parts, same model, layout and batch.

    python benchmarks/engine_overhead.py [--steps 20] [--output docs/measured/engine_overhead.json]

Both run in the same processes and take turns step by step, so that the machine's noise falls on both. The hand-written
loop is what one would write today: DTensor tensor parallelism with sequence parallelism by `parallelize_module`,
FSDP2, torch's `PipelineStage` under `Schedule1F1B`, AdamW over DTensors, clipping by a hand-made norm.
"""

import argparse
import functools
import math
import statistics
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from steps import batches_of, publish, start_ranks, timed
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
from emberward.engine import Engine, MicroBatch, World, build_world, shape_of
from emberward.engine._bloom import BloomStage
from emberward.layout import Axis
from emberward.recipe import Recipe, layers_of_stages, load_recipe, mesh_of, resolve

RANKS, WARM_UP = 8, 3


def hand_stage(recipe: Recipe, world: World) -> BloomStage:
    """This rank's stage, parallel by torch's own means."""
    shape, layers = shape_of(recipe), layers_of_stages(recipe)
    index = world.at(Axis.PP)
    stage = BloomStage(shape, layers[index], is_first=index == 0, is_last=index == len(layers) - 1)
    tp, size = world.device_mesh["tp"], world.size(Axis.TP)
    to_whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    for block in stage.blocks.values():
        block.attention.first_head = world.at(Axis.TP) * (shape.num_heads // size)
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
        head = torch.nn.Linear(shape.hidden, shape.vocab_size, bias=False)
        stage.head = head
        outer["head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    parallelize_module(stage, tp, outer)
    with torch.no_grad():
        for name, param in stage.named_parameters():
            param.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            if param.dim() > 1:
                torch.nn.init.normal_(param, std=shape.init_std)
    mesh = world.device_mesh["dp_shard"]
    for block in stage.blocks.values():
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    fully_shard(stage, mesh=mesh, reshard_after_forward=False)
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
        tokens = torch.cat([batch.tokens for batch in batches])
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
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    start_ranks(RANKS)
    figures = measure(options.steps)
    if figures is not None:
        publish(figures, options.output)


if __name__ == "__main__":
    main()
