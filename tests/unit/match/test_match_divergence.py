"""Where two programs part: statements of one line alone are a pair, and what is made up for later is no fault."""

import pytest

from emberward.match._divergence import Alignment, Decision, Divergence, first_unbalanced
from emberward.match._flow import Frame, Step


def program(*items: Step) -> Frame:
    return Frame("train.py", "main", items)


def test_statements_of_different_lines_are_no_pair_though_they_make_equal_calls():
    token = {0: "all_reduce", 1: "all_reduce"}.get
    alignment = Alignment(token, token)
    left = program(Step(1), Step(3, inner=(0,)), Step(9))
    right = program(Step(1), Step(5, inner=(0, 1)), Step(9))
    alignment.frames(left, right)
    (found,) = alignment.found
    assert str(found.decision) == "train.py:1"
    assert (found.calls, found.before) == (((0,), (0, 1)), (0, 0))


def test_statements_of_one_line_are_a_pair_and_what_comes_after_it_is_judged():
    token = {0: "all_reduce", 1: "all_reduce"}.get
    alignment = Alignment(token, token)
    left = program(Step(1), Step(3, inner=(0,)), Step(9))
    right = program(Step(1), Step(3, inner=(0,)), Step(5, inner=(1,)), Step(9))
    alignment.frames(left, right)
    (found,) = alignment.found
    assert (str(found.decision), found.calls, found.before) == ("train.py:3", ((), (1,)), (1, 1))


def divergence(line: int, left: int, right: int) -> Divergence:
    calls = (tuple(range(left)), tuple(range(right)))
    return Divergence(Decision("train.py", line), runs=((), ()), calls=calls, before=(line, line))


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ([(1, 0)], 0),
        ([(0, 1)], 0),
        ([(1, 0), (0, 1)], None),
        ([(0, 1), (1, 0)], None),
        ([(2, 0), (0, 1)], 0),
        ([(1, 0), (0, 1), (1, 0)], 2),
        ([(1, 1)], 0),
    ],
    ids=str,
)
def test_the_first_divergence_that_no_later_one_makes_up_for_is_the_fault(counts, line):
    found = first_unbalanced([divergence(number, *each) for number, each in enumerate(counts)], last=9)
    assert (None if found is None else found.decision.line) == line


def test_what_lies_behind_the_last_call_of_both_makes_up_for_nothing():
    found = first_unbalanced([divergence(0, 1, 0), divergence(7, 0, 1)], last=6)
    assert found is not None
    assert found.decision.line == 0
