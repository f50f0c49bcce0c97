"""Debug operations in running ranks: what they say, that they change nothing, and when they end a run."""

from dataclasses import replace

import pytest
import torch

from emberward.engine import Engine, build_world
from emberward.findings import EmberwardError
from emberward.recipe import mesh_of
from ranks.cases import LR, micro_batches_of, small_recipe


def watched(rank, world_size, *, debug, steps=2, poison=None, **layout):
    """(losses, what was written, the error's code, message and ranks or None)."""
    recipe = small_recipe(debug=debug, **layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    said, losses, error = [], [], None
    engine = Engine(recipe, replace(world, say=said.append))
    if rank == poison:
        next(part for part in engine.parts if part.name == "embed_norm.weight").local.add_(1.0)
    try:
        for step in range(steps):
            totals = engine.train_step(micro_batches_of(step, recipe, world.dp_rank), lr=LR, step=step)
            losses.append((totals.loss, totals.grad_norm))
    except EmberwardError as caught:
        error = (caught.code, caught.what, caught.ranks)
    return losses, said, error


TP = {"tp": 2, "accumulation": 2, "sequence_parallel": False}


@pytest.mark.parametrize(("family", "norm"), [("bloom", "embed_norm"), ("llama", "final_norm")])
def test_operations_print_what_was_asked_for_and_change_no_bit(pool, family, norm):
    plain = pool.run(watched, 2, debug=(), family=family, **TP)
    debug = (
        "print blocks.1.mlp step=1 mb=0 rank=1",
        "print blocks.1.mlp of=grad step=0 mb=1 rank=1",
        "print blocks.0.mlp.up.weight step=0 rank=0",
        "finite *",
        f"range {norm} min=-100 max=100",
        "equal blocks.*.mlp axis=tp",
        f"equal {norm}.weight axis=tp",
    )
    asked = pool.run(watched, 2, debug=debug, family=family, **TP)
    assert [losses for losses, _, _ in asked] == [losses for losses, _, _ in plain]
    assert [error for _, _, error in asked] == [None, None]
    (weight,), (gradient, output) = asked[0][1], asked[1][1]
    part = "64x32 float32, [0:64 x 0:32] of 128x32"
    assert weight.startswith(f"debug  blocks.0.mlp.up.weight value  step 1  rank 0  {part}  norm ")
    assert gradient.startswith(
        "debug  blocks.1.mlp grad  step 1 micro-batch 1  rank 1  8x16x32 float32, this rank's part"
    )
    assert output.startswith("debug  blocks.1.mlp output  step 2 micro-batch 0  rank 1  8x16x32 float32")
    assert all(word in output for word in ("norm", "min", "max", "mean", "values"))


@pytest.mark.parametrize(
    ("debug", "poison", "told", "ranks"),
    [
        ("range embed_norm.weight max=0.5 step=1", None, "embed_norm.weight value  step 2: values from", (0,)),
        ("equal embed_norm.weight axis=tp", 1, "embed_norm.weight: ranks [1] have other bits than rank 0", (1,)),
    ],
)
def test_an_assertion_that_does_not_hold_ends_the_run_and_names_tensor_and_rank(pool, debug, poison, told, ranks):
    for losses, _, error in pool.run(watched, 2, debug=(debug,), poison=poison, **TP)[:1]:
        assert len(losses) == (1 if poison is None else 0)
        assert (error[0], error[2]) == ("R118", ranks)
        assert told in error[1]


def test_a_prompt_needs_a_terminal_a_comparison_copies_and_an_output_a_module_that_is_called(pool):
    holder = "roberta.encoder.layer.0.attention"
    for family, debug, told in (
        ("bloom", "stop blocks.0", "a debug operation stops with a prompt"),
        ("bloom", "equal blocks.0.mlp.up.weight axis=tp", "no two ranks hold the same part of blocks.0.mlp.up.weight"),
        ("roberta", f"print {holder}", f"{holder} holds modules and is not called itself"),
    ):
        for code, message in pool.run(refusal, 2, debug=(debug,), family=family, **TP):
            assert code == "C117"
            assert told in message


def refusal(rank, world_size, **layout):
    """Code and message of what the engine refuses at its start."""
    recipe = small_recipe(**layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    with pytest.raises(EmberwardError) as caught:
        Engine(recipe, world)
    return caught.value.code, caught.value.what
