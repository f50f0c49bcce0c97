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
    assert turns(QUIET)[1] == []


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


@pytest.mark.parametrize("factor", [1.1, 2.0, 30.0])
def test_one_slow_step_is_none_however_slow(factor):
    assert turns([(i, 0.2 * (factor if i % 20 == 15 else 1.0)) for i in range(200)])[1] == []


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.05, 0.2])
def test_noise_is_none(spread):
    rng = random.Random(5)
    rows = [(i, 0.2 * (1 + rng.gauss(0, spread))) for i in range(3000)]
    assert turns(rows)[1] == []
