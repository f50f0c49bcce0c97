"""What is observed, in seconds of a step that nobody observes."""

import pytest
from unit.lens.test_work import NONE, NUM_STEPS, STEP_MS, rank_of, seen

from emberward.lens._paces import pace_of

BACKWARD = ("emberward::backward train.py:9", NONE, 2.0, 5.0, -1, False)
ENGINE = ("/x/torch/autograd/graph.py", "_engine_run_backward", "torch", 1)
LOOP = ("train.py", "main", "user", 9)


def spans(*of_steps):
    """Begin and end in ms of a step, one for each observed step; None for none."""
    starts = (step * STEP_MS for step in range(len(of_steps)))
    return [((at + each[0]) / 1e3, (at + each[1]) / 1e3) for at, each in zip(starts, of_steps, strict=True) if each]


def test_each_part_of_a_step_has_its_own_pace():
    sampled = seen(ENGINE, LOOP, step_ms=6.0, ms=4.0)  # Observed: 5 ms of backward and 5 of the rest.
    pace = pace_of(rank_of(0, [BACKWARD]), sampled)
    assert (pace.step_s, pace.backward_s) == pytest.approx((0.006, 0.004))
    assert pace.of(spans(*[(3.0, 4.0)] * NUM_STEPS)) == pytest.approx(0.001 * 4 / 5)
    assert pace.of(spans(*[(8.0, 9.0)] * NUM_STEPS)) == pytest.approx(0.001 * 2 / 5)
    assert pace.of(spans(*[(1.0, 3.0)] * NUM_STEPS)) == pytest.approx(0.001 * 2 / 5 + 0.001 * 4 / 5)


def test_one_step_that_lasted_long_by_chance_does_not_count_for_more():
    pace = pace_of(rank_of(0, [BACKWARD]), None)
    usual, long = (3.0, 3.5), (2.0, 7.0)
    assert pace.of(spans(long, *[usual] * (NUM_STEPS - 1))) == pytest.approx(0.0005)


def test_what_is_not_in_every_step_counts_as_its_mean():
    pace = pace_of(rank_of(0, [BACKWARD]), None)
    assert pace.of(spans((2.0, 7.0), *[None] * (NUM_STEPS - 1))) == pytest.approx(0.005 / NUM_STEPS)
    assert pace.of(spans((2.0, 7.0), *[None] * (NUM_STEPS - 1)), 1) == pytest.approx(0.005)
    assert pace.of([]) == 0.0


def test_where_no_step_was_observed_whole_nothing_lasts():
    pace = pace_of(rank_of(0, [BACKWARD], steps=0), seen(ENGINE, LOOP))
    assert (pace.of([(0.001, 0.002)]), pace.backward_s) == (0.0, 0.0)


@pytest.mark.parametrize("rows", [[], [BACKWARD]], ids=["not observed", "not sampled"])
def test_without_a_backward_all_of_a_step_has_one_pace(rows):
    frames = (LOOP,) if rows else (ENGINE, LOOP)
    pace = pace_of(rank_of(0, rows), seen(*frames, step_ms=STEP_MS / 2))
    assert pace.of(spans(*[(1.0, 9.0)] * NUM_STEPS)) == pytest.approx(0.004)
    assert pace.backward_s == pytest.approx(0.0025 if rows else 0.0)
