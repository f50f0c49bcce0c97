"""A step whose loss or gradient is not finite changes nothing, on any rank, and the next one goes on."""

import math

import torch

from emberward.engine import Engine, build_world
from emberward.recipe import mesh_of
from ranks.cases import LR, micro_batches_of, small_recipe


def poisoned_run(rank, world_size, *, compute, **layout):
    """Three steps; in the second, one rank's activations overflow. Returns what each step said and did."""
    recipe = small_recipe(compute=compute, **layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    engine = Engine(recipe, world)
    steps = []
    for step in range(3):
        before = [part.local.clone() for part in engine.parts]
        kept = [part.local.clone() for part in engine.parts if part.name == "final_norm.weight"]
        if step == 1 and rank == world_size - 1:
            for part in engine.parts:
                if part.name == "final_norm.weight":
                    part.local.fill_(math.inf)
        totals = engine.train_step(micro_batches_of(step, recipe, world.dp_rank), lr=LR, step=step)
        for part, value in zip([p for p in engine.parts if p.name == "final_norm.weight"], kept, strict=True):
            if step == 1:
                part.local.copy_(value)
        changed = any(not torch.equal(part.local, old) for part, old in zip(engine.parts, before, strict=True))
        finite = all(bool(part.local.isfinite().all()) for part in engine.parts)
        steps.append((totals.is_finite, changed, finite, engine.loss_scale.scale, engine.optimizer.num_updates))
    return steps


def test_all_ranks_skip_the_step_and_go_on(pool):
    for answer in pool.run(poisoned_run, 4, compute="fp32", dp=2, pp=2, accumulation=2):
        assert [(finite_step, changed) for finite_step, changed, *_ in answer] == [
            (True, True),
            (False, False),
            (True, True),
        ]
        assert all(finite for _, _, finite, _, _ in answer)
        assert [updates for *_, updates in answer] == [1, 1, 2]


def test_fp16_halves_its_loss_scale(pool):
    for answer in pool.run(poisoned_run, 2, compute="fp16", dp=2, accumulation=2):
        assert [scale for *_, scale, _ in answer] == [65536.0, 32768.0, 32768.0]
