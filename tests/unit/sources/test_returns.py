"""Functions that give their caller what they have given before, and those that do not."""

import json
import sys
import time

import numpy as np
import pytest
import torch

from emberward.sources._returns import MAX_BYTES, MIN_NS, ReturnsWatch

TEXT = json.dumps({f"lamp {k}": [k, k / 3] for k in range(400)})
TABLE = {f"lamp {k}": k for k in range(400)}
NUM_STEPS = 3


def takes_its_time():
    end = time.perf_counter_ns() + 2 * MIN_NS
    while time.perf_counter_ns() < end:
        pass


class Place:
    def __init__(self, x):
        self.x, self.names = x, [f"place {k}" for k in range(40)]


class Odd(Place):
    """Its own code would be run."""

    def __reduce__(self):
        ASKED.append(self)
        return Place, (self.x,)


ASKED = []


class Rows(list):
    def __iter__(self):
        ASKED.append(self)
        return super().__iter__()


def parsed(step):
    takes_its_time()
    return json.loads(TEXT)


def pictures(step):
    takes_its_time()
    return np.arange(900).reshape(30, 30)


def places(step):
    takes_its_time()
    return [Place(3)]


def moved(step):
    takes_its_time()
    return [Place(step)]


def flag(step):
    takes_its_time()
    return True


def nothing(step):
    takes_its_time()


def odd(step):
    takes_its_time()
    return Odd(3)


def rows(step):
    takes_its_time()
    return Rows(TABLE)


def large(step):
    takes_its_time()
    return b"x" * (MAX_BYTES + 1)


def view_of_much(step):
    """To pickle it, numpy would copy all of it."""
    takes_its_time()
    return np.broadcast_to(np.zeros(1), (1 << 40,))


def quick(step):
    return dict(TABLE)


def computed(step):
    takes_its_time()
    torch.ones(3).sum()
    return dict(TABLE)


def tensors(step):
    takes_its_time()
    return [torch.ones(100)]


def fails(step):
    takes_its_time()
    raise ValueError(TEXT)


def yields(step):
    takes_its_time()
    yield dict(TABLE)


def followed(function, *, turns=1, calls=lambda: 0):
    """What is seen of a function that is called in each step, by the name of the function."""
    watch = ReturnsWatch(calls)
    watch.start()
    for step in range(NUM_STEPS):
        for turn in range(turns):
            try:
                found = function(turns * step + turn)
                if function is yields:
                    next(found)
            except ValueError:
                pass
        watch.stepped()
    watch.stop()
    assert sys.getprofile() is None
    return {line["returned"][2]: line["returned"][3:] for line in watch.lines()}


@pytest.mark.parametrize("function", [parsed, pictures, places])
def test_what_each_step_makes_again_is_seen_from_the_second_on(function):
    assert followed(function)[function.__name__] == [1.0, NUM_STEPS - 1]


def test_of_what_is_new_in_each_step_and_made_often_in_it_all_but_the_first_is_made_again():
    once = iter(range(99))

    def scene(turn):
        takes_its_time()
        return {**TABLE, "step": next(once) // 4}

    ((share, count),) = followed(scene, turns=4).values()
    assert count == 2 * 3 and 0 < share < 1


@pytest.mark.parametrize(
    "function",
    [moved, flag, nothing, odd, rows, large, view_of_much, quick, tensors, fails, yields],
    ids=lambda each: each.__name__,
)
def test_what_is_new_small_short_unknown_or_no_value_is_not(function):
    assert followed(function) == {}
    assert ASKED == []


def test_what_computes_with_tensors_is_no_work_of_python_s_alone():
    count = iter(range(99))
    assert followed(computed, calls=lambda: next(count)) == {}


def test_another_profiler_of_the_program_stays():
    def other(*_):
        pass

    sys.setprofile(other)
    try:
        watch = ReturnsWatch(lambda: 0)
        watch.start()
        watch.stop()
        assert sys.getprofile() is other
    finally:
        sys.setprofile(None)
