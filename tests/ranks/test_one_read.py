"""The host waits for the device once a step: for the step's totals."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from emberward.engine import Engine, build_world
from emberward.engine._world import host_values
from emberward.recipe import mesh_of
from ranks.cases import LR, micro_batches_of, small_recipe


class HostReads(TorchDispatchMode):
    """Counts what brings a value to the host: `item`, `float`, a tensor as a condition."""

    def __init__(self):
        super().__init__()
        self.num_reads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.num_reads += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def looks_at(param):
    bool(param.sum() > 0)


def reads_of_steps(rank, world_size, *, hidden=False, **layout):
    """(reads by name, other reads) of each of two steps; with `hidden` something looks at a parameter."""
    del rank, world_size
    recipe, named = small_recipe(**layout), []

    def read(name, tensor):
        named.append(name)
        with torch._C._DisableTorchDispatch():
            return host_values(name, tensor)

    world = replace(build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60), read=read)
    engine, found = Engine(recipe, world), []
    if hidden:
        for stage in engine._stages.values():
            next(stage.parameters()).register_post_accumulate_grad_hook(looks_at)
    for step in range(2):
        named.clear()
        with HostReads() as others:
            engine.train_step(micro_batches_of(step, recipe, world.dp_rank), lr=LR, step=step)
        found.append((list(named), others.num_reads))
    return found


@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 2, "zero": 3, "accumulation": 2},
        {"tp": 2, "compute": "bf16"},
        {"pp": 2, "accumulation": 2, "compute": "fp16"},
    ],
    ids=["zero3", "tp", "pp"],
)
def test_a_step_reads_its_totals_and_nothing_else(pool, layout):
    for answer in pool.run(reads_of_steps, 2, **layout):
        assert answer == [(["step_totals"], 0)] * 2


def test_the_count_sees_a_read_that_is_not_named(pool):
    for answer in pool.run(reads_of_steps, 2, hidden=True, dp=2, tp=1):
        assert all(others > 0 for _, others in answer)
