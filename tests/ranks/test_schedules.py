"""Every schedule trains as one process does, with every ZeRO stage, recomputation, tp and accumulation."""

import functools

import pytest

from emberward.plan import SCHEDULES
from ranks.cases import engine_run, plain_run, relative
from ranks.distance import require_exact
from ranks.test_layout_grid import num_ranks

STEPS = 3

SPLIT = {
    "zb_h1 zero0": {"dp": 2, "pp": 2, "accumulation": 4, "zero": 0, "schedule": "zb_h1"},
    "zb_h1 of 4 stages zero3 recompute": {
        "dp": 2, "pp": 2, "accumulation": 4, "zero": 3, "schedule": "zb_h1", "stages_per_rank": 2, "recompute": True,
    },
    "zb_v zero3": {"dp": 2, "pp": 2, "accumulation": 4, "zero": 3, "schedule": "zb_v", "stages_per_rank": 2},
    "zb_v tp2 zero2": {
        "dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "zero": 2, "schedule": "zb_v", "stages_per_rank": 2,
    },
    "dualpipe_v tp2 recompute without sequence parallel": {
        "tp": 2, "pp": 2, "accumulation": 4, "schedule": "dualpipe_v", "stages_per_rank": 2, "recompute": True,
        "sequence_parallel": False,
    },
    "dualpipe_v zero2 hsdp": {
        "dp": 4, "dp_replicate": 2, "pp": 2, "accumulation": 4, "zero": 2, "schedule": "dualpipe_v",
        "stages_per_rank": 2,
    },
    "looped_bfs zero3": {
        "dp": 2, "pp": 2, "accumulation": 4, "zero": 3, "schedule": "looped_bfs", "stages_per_rank": 2,
    },
}  # fmt: skip


@functools.cache
def reference():
    return plain_run(steps=STEPS, keep_grads_of=STEPS - 1)


def require_equal(pool, layout, *, poison=None):
    answers = pool.run(engine_run, num_ranks(layout), steps=STEPS, keep_grads_of=STEPS - 1, poison=poison, **layout)
    require_exact(answers, reference())


@pytest.mark.parametrize("layout", SPLIT.values(), ids=SPLIT.keys())
def test_a_schedule_equals_one_process(pool, layout):
    require_equal(pool, layout)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "zero"), [(name, number % 4) for number, name in enumerate(SCHEDULES)])
def test_every_schedule_is_exact_with_a_zero_stage(pool, name, zero):
    """tools/campaign_grid.py has every schedule with every stage, of every family."""
    chunks = {"gpipe": 1, "1f1b": 1, "zb_h1": 1}.get(name, 2)
    layout = {"dp": 2, "pp": 2, "accumulation": 8, "zero": zero, "schedule": name, "stages_per_rank": chunks}
    require_equal(pool, {**layout, "recompute": zero == 1})


def test_a_weight_gradient_that_is_one_percent_wrong_is_caught(pool):
    layout = SPLIT["zb_v zero3"]
    with pytest.raises(AssertionError):
        require_equal(pool, layout, poison="one_percent")


def test_in_bf16_late_weights_are_summed_over_dp_in_one_type(pool):
    layout = {"dp": 2, "pp": 2, "accumulation": 4, "zero": 2, "schedule": "zb_h1", "compute": "bf16"}
    answers = pool.run(engine_run, 4, steps=STEPS, **layout)
    assert relative(answers[0]["loss"][:1], reference()["loss"][:1]) < 5e-3
    assert relative(answers[0]["loss"], reference()["loss"]) < 5e-2


def test_a_free_stage_map_and_a_backward_in_parts_on_some_micro_batches_alone(pool, tmp_path):
    """Stages 0 and 3 on rank 1, so that the tied ends lie there; I and W with nothing between them run as one."""
    rows = ["1F0,2F0,1F1,2F1,2I0,2B1,1I0,2W0,1B1,1W0", "0F0,0F1,3F0,3B0,3F1,3I1,3W1,0I0,0W0,0I1,0W1"]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    for sharding in ({"zero": 1}, {"zero": 3}):
        layout = {"dp": 2, "pp": 2, "accumulation": 2, **sharding, "schedule": str(path), "stages_per_rank": 2}
        require_equal(pool, layout)


def test_weights_that_come_after_the_others_gradients_were_summed_are_exact_over_replicas(pool):
    """Rank 1 of ZB-H1 ends with two W in a row: the second finds norms and biases already summed."""
    layout = {"dp": 4, "dp_replicate": 2, "pp": 2, "accumulation": 4, "zero": 2, "schedule": "zb_h1"}
    require_equal(pool, layout)
