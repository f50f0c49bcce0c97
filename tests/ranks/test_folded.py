"""What a dry run repeats is what it would have executed: event for event, and segment for segment."""

import pytest

from ranks.folded_cases import folded_and_whole, gathers_of_steps

CASES = {
    "bloom 1f1b zero1 small": {"of": 1, "pp": 2, "zero": 1, "accumulation": 6},
    "bloom 1f1b zero1 recompute": {"of": 3, "tp": 2, "pp": 4, "zero": 1, "accumulation": 10, "recompute": True},
    "llama interleaved zero3": {
        "of": 2, "family": "llama", "dp": 2, "pp": 2, "zero": 3, "accumulation": 8, "schedule": "interleaved",
        "stages_per_rank": 2, "gathered_gb": 2.0,
    },
}  # fmt: skip
GRID = {
    "bloom zb_v zero3 recompute": {
        "of": 0, "dp": 2, "pp": 2, "zero": 3, "accumulation": 9, "schedule": "zb_v", "stages_per_rank": 2,
        "recompute": True,
    },
    "llama gpipe zero2 gloo": {
        "of": 0, "family": "llama", "dp": 2, "tp": 2, "pp": 2, "zero": 2, "accumulation": 8, "schedule": "gpipe",
        "transport": "gloo",
    },
    "swin 1f1b zero1 recompute": {
        "of": 0, "family": "swin", "dp": 2, "tp": 2, "pp": 2, "zero": 1, "accumulation": 8, "recompute": True,
    },
    **{
        f"{family} {schedule} zero{zero}": {
            "of": of, "family": family, "schedule": schedule, "zero": zero, "dp": 2, "pp": 2, "accumulation": 8,
            "stages_per_rank": 1 if schedule in ("gpipe", "1f1b", "zb_h1") else 2, "recompute": zero in (1, 3),
        }
        for schedule, family, zero, of in (
            ("gpipe", "bloom", 0, 0), ("looped_bfs", "llama", 3, 2), ("1f1b", "bloom", 2, 0),
            ("interleaved", "llama", 1, 2), ("zb_h1", "bloom", 0, 0), ("zb_v", "llama", 3, 2),
            ("dualpipe_v", "bloom", 2, 0),
        )
    },
}  # fmt: skip
"""Each schedule, with one ZeRO stage and family after the other."""


def told(pool, case):
    (answer,) = pool.run(folded_and_whole, 1, **{"family": "bloom", **case})
    return answer


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_repeated_events_are_those_that_would_have_been_executed(pool, case):
    answer = told(pool, case)
    assert answer["difference"] is None
    assert answer["is_one_program"]
    few, all_ = answer["executed"]
    assert few < 0.8 * all_, "micro-batches were repeated"


@pytest.mark.thorough
@pytest.mark.parametrize("case", GRID.values(), ids=GRID.keys())
def test_every_schedule_and_stage_of_sharding_repeats_what_it_would_have_executed(pool, case):
    answer = told(pool, case)
    assert answer["difference"] is None
    assert answer["is_one_program"]


@pytest.mark.parametrize("plant", ["micro-batch", "layer"])
def test_what_does_not_repeat_itself_is_executed(pool, plant):
    odd = told(pool, {"of": 0, "tp": 2, "accumulation": 6, "plant": plant})
    assert odd["difference"] is None
    if plant == "micro-batch":
        assert odd["executed"][0] > odd["executed"][1], "a short step, and then the whole one"


def test_a_step_after_an_evaluation_gathers_as_often_as_one_before(pool):
    middle = {"of": 2, "dp": 2, "pp": 3, "zero": 3, "schedule": "1f1b"}
    (steps,) = pool.run(gathers_of_steps, 1, **middle)
    assert len(steps) > 2
    assert len(set(steps)) == 1
