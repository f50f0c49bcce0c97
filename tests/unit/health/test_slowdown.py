"""The rule of slowdowns on BLOOM-176B's own numbers, and on what is none."""

import json
import random
from pathlib import Path

import pytest

from emberward.health import SlowdownWatch

FACTS = json.loads((Path(__file__).parents[2] / "data" / "health" / "bloom_176b_slowdown.json").read_text())
QUIET = [tuple(row) for row in FACTS["quiet"]]
CHANGE = [tuple(row) for row in FACTS["change"]]


def turns(rows):
    watch = SlowdownWatch()
    return watch, [turn for step, seconds in rows if (turn := watch.see(step=step, step_s=seconds)) is not None]


def test_bloom_s_quiet_iterations_are_quiet():
    """The log shows eleven of them, of which the rule learns ten; again and again from each one on, all are judged."""
    for first in range(len(QUIET)):
        again = [(number, seconds) for number, (_, seconds) in enumerate((QUIET[first:] + QUIET[:first]) * 4)]
        assert turns(again)[1] == []
        assert len(turns([*again, *((60 + step, 1.05 * seconds) for step, seconds in again[:2])])[1]) == 1


@pytest.mark.parametrize(("share", "is_told"), [(0.029, False), (0.031, True)])
def test_two_steps_are_a_change_from_three_percent_on(share, is_told):
    steps = [1.0] * 20 + [1.0 + share] * 2
    assert len(turns(list(enumerate(steps)))[1]) == is_told


def test_bloom_s_change_is_told_two_iterations_after_it_began():
    watch, (turn,) = turns([*QUIET, *CHANGE])
    assert (turn.first_step, turn.step) == (42783, 42784)
    assert turn.step - 42782 <= 2, "42782 is the first iteration that is longer"
    assert turn.share == pytest.approx(0.041, abs=0.002)
    assert watch.now == turn


def test_it_is_over_when_two_steps_are_back():
    watch, (_, over) = turns([*QUIET, *CHANGE, (42785, 105.2), (42786, 105.3), (42787, 105.1)])
    assert (over.is_over, over.step) == (True, 42786)
    assert watch.now is None


def test_one_step_back_does_not_end_it():
    watch, seen = turns([*QUIET, *CHANGE, (42785, 105.2), (42786, 111.0), (42787, 105.2), (42788, 111.0)])
    assert [turn.is_over for turn in seen] == [False]
    assert watch.now is not None


@pytest.mark.parametrize("factor", [1.1, 2.0, 30.0])
def test_one_slow_step_is_none_however_slow(factor):
    assert turns([(i, 0.2 * (factor if i % 20 == 15 else 1.0)) for i in range(200)])[1] == []


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.05, 0.2])
def test_noise_is_none(spread):
    rng = random.Random(5)
    rows = [(i, 0.2 * (1 + rng.gauss(0, spread))) for i in range(3000)]
    assert turns(rows)[1] == []
