"""Reading and setting one parameter, its gradient and its moments by name, on any layout, in a running job."""

import numpy as np
import pytest
import torch

from emberward.engine import Engine, Quantity, build_world
from emberward.findings import ConfigError
from emberward.recipe import mesh_of
from ranks.cases import LR, micro_batches_of, small_recipe

TIED, SPLIT, WHOLE = "embed.weight", "blocks.1.mlp.up.weight", "blocks.2.mlp_norm.weight"
LAYOUTS = {
    "one rank": {},
    "dp2 tp2 zero3": {"dp": 2, "tp": 2, "zero": 3},
    "tp2 pp2": {"tp": 2, "pp": 2, "accumulation": 4},
}


def inspection(rank, world_size, **layout):
    """What every rank reads after a step, and whether what was written is what is read and trained on."""
    recipe = small_recipe(**layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    engine = Engine(recipe, world)
    found, checks = {}, []

    def before_update():
        found.update({("grad", name): engine.read(name, Quantity.GRAD).numpy().copy() for name in (TIED, SPLIT, WHOLE)})
        engine.write(WHOLE, torch.zeros_like(engine.read(WHOLE)), Quantity.GRAD)

    batches = micro_batches_of(0, recipe, world.dp_rank)
    engine.train_step(batches, lr=LR, step=0, before_update=before_update)
    for name in (TIED, SPLIT, WHOLE):
        for what in (Quantity.VALUE, Quantity.EXP_AVG, Quantity.EXP_AVG_SQ):
            found[what.value, name] = engine.read(name, what).numpy().copy()
    odd = torch.linspace(-1, 1, found["value", SPLIT].size).reshape(found["value", SPLIT].shape)
    odd[0, 0], odd[-1, -1] = -0.0, float("nan")
    mine = odd if rank == 0 else torch.zeros_like(odd)  # rank 0's counts
    engine.write(SPLIT, mine, Quantity.EXP_AVG_SQ)
    checks.append(torch.equal(engine.read(SPLIT, Quantity.EXP_AVG_SQ).view(torch.int32), odd.view(torch.int32)))
    for part in engine.parts:
        if part.name == SPLIT:
            moments = {name: local for name, held, local in engine.optimizer.moments() if held is part}
            cut = odd[tuple(slice(start, stop) for start, stop in part.box)]
            checks.append(torch.equal(moments["exp_avg_sq"].view(torch.int32), cut.contiguous().view(torch.int32)))
    engine.write(TIED, torch.full_like(engine.read(TIED), 0.5))
    ends = [bool((part.local == 0.5).all()) for part in engine.parts if part.name == TIED]
    return found, checks, ends


def refused(rank, world_size, **layout):
    """The messages of what cannot be read or set."""
    recipe = small_recipe(**layout)
    engine = Engine(recipe, build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60))
    messages = []
    for act in (
        lambda: engine.read("blocks.9.mlp.up.weight"),
        lambda: engine.read(WHOLE, Quantity.GRAD),
        lambda: engine.write(WHOLE, torch.zeros(3)),
    ):
        with pytest.raises((ConfigError, ValueError)) as caught:
            act()
        messages.append(str(caught.value).splitlines()[0])
    return messages


def test_every_layout_reads_the_same_whole_tensors_on_every_rank(pool):
    seen = {}
    for name, layout in LAYOUTS.items():
        size = layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1)
        answers = pool.run(inspection, size, **layout)
        for found, checks, ends in answers:
            assert all(checks) and all(ends), name
            for key, value in found.items():
                np.testing.assert_array_equal(value, answers[0][0][key])
        seen[name] = answers[0][0]
        assert sum(len(ends) for _, _, ends in answers) >= 1
    for name, found in seen.items():
        for key, value in found.items():
            expected = seen["one rank"][key]
            difference = np.abs(value - expected).max()
            assert difference <= 2e-4 * max(np.abs(expected).max(), 1e-12), (name, key)
    assert (seen["one rank"]["exp_avg", WHOLE] == 0).all(), "the gradient that was set to zero is what was trained on"
    assert (seen["one rank"]["exp_avg", SPLIT] != 0).any()


def test_what_cannot_be_read_or_set_says_why_on_every_rank(pool):
    assert (
        pool.run(refused, 2, tp=2)
        == [
            [
                "K102 the model has no parameter blocks.9.mlp.up.weight",
                f"{WHOLE} has no gradient now: read and set it in before_update",
                f"{WHOLE} is float32 of shape (32,), found torch.float32 of shape (3,)",
            ]
        ]
        * 2
    )
