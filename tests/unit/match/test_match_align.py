"""How one sequence of calls departs from another, over random sequences, and the width of number types."""

import random

import pytest
import torch

from emberward.match._align import Departure, DepartureKind, depart
from emberward.match._simulate import ITEM_BYTES


def cut(reference, at, count):
    return reference[:at] + reference[at + count :]


@pytest.mark.parametrize("seed", range(30))
def test_calls_that_are_missing_extra_or_replaced_are_found_where_they_are(seed):
    rng = random.Random(seed)
    reference = rng.sample(range(1000), 60)  # all different: the place is certain
    at, count = rng.randrange(1, 40), rng.randrange(1, 8)
    shorter = cut(reference, at, count)
    replaced = [*reference[:at], 5000, *reference[at + 1 :]]
    for odd, other, kind, num in (
        (shorter, reference, DepartureKind.MISSING, count),
        (reference, shorter, DepartureKind.EXTRA, count),
        (replaced, reference, DepartureKind.DIFFERENT, 1),
    ):
        assert depart(odd, other, lines=(odd, other)) == Departure(kind, at, num)


@pytest.mark.parametrize("seed", range(30))
def test_of_equal_calls_in_a_row_the_lines_tell_which_one_is_missing_or_extra(seed):
    """All calls are alike, each at a line of its own; an ending call follows, so that the length is seen at a place."""
    rng = random.Random(seed)
    lines = rng.sample(range(1000), 30)
    calls = [*([1] * 29), 2]
    at, count = rng.randrange(0, 20), rng.randrange(1, 5)
    few_calls, few_lines = cut(calls, at, count), cut(lines, at, count)
    missing = depart(few_calls, calls, lines=(few_lines, lines))
    extra = depart(calls, few_calls, lines=(lines, few_lines))
    assert missing == Departure(DepartureKind.MISSING, at, count)
    assert extra == Departure(DepartureKind.EXTRA, at, count)


def test_lines_that_do_not_fit_the_calls_do_not_move_the_place():
    calls, lines = [1, 1, 1, 1, 2], [10, 11, 12, 13, 14]
    assert depart([1, 1, 1, 2], calls, lines=([10, 99, 98, 97], lines)) == Departure(DepartureKind.MISSING, 3, 1)


@pytest.mark.parametrize("name", [name for name in ITEM_BYTES if not name.startswith(("fp", "bf16"))])
def test_a_number_type_is_as_wide_as_torch_s(name):
    assert ITEM_BYTES[name] == getattr(torch, name).itemsize
