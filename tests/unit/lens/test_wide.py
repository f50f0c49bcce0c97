"""Numbers of 64 bits that nobody asked for, under the watch that compares steps, and the same asked for."""

import numpy as np
import pytest
import torch
from unit.lens.test_alike import compared_by, wastes_of
from unit.lens.test_stalls import line_of

from emberward.findings import Cause

WEIGHT = torch.nn.Parameter(torch.randn(256, 256))
STATES = torch.randn(256, 256)
TABLE = torch.from_numpy(np.cos(np.arange(256.0)))


def meets_a_table(step):
    turned = (STATES @ WEIGHT) * TABLE  # here
    scores = turned @ turned.t()
    scores.softmax(-1).float().sum().backward()


def asks_for_it(step):
    exact = (STATES @ WEIGHT).double()  # here
    scores = (exact * TABLE) @ exact.t()
    scores.softmax(-1).float().sum().backward()


def sums_in_it(step):
    ((STATES @ WEIGHT).sum(dtype=torch.float64) * TABLE).sum().backward()  # here


def has_a_number_of_it(step):
    ((STATES @ WEIGHT) * TABLE[3]).sum().backward()  # here


EXACT = torch.nn.Parameter(torch.randn(256, 256, dtype=torch.float64))


def has_parameters_of_it(step):
    (STATES * EXACT).sum().backward()  # here


def narrows_the_table(step):
    turned = (STATES @ WEIGHT) * TABLE.float()  # here
    (turned @ turned.t()).softmax(-1).sum().backward()


def test_what_is_computed_wide_is_told_where_the_numbers_meet():
    found = compared_by(meets_a_table, "wide")
    assert {became[0][1] for _, became, *_ in found} == {line_of(meets_a_table)}
    lines = {where[0][1]: wide_ns / all_ns for where, _, wide_ns, all_ns, _ in found}
    begin = line_of(meets_a_table)
    assert lines[begin + 1] == pytest.approx(0.5)
    assert 0 < lines[begin] < 0.5
    assert 0 < sum(behind for *_, behind in found) < 0.5


@pytest.mark.parametrize(
    "program", [asks_for_it, sums_in_it, has_a_number_of_it, has_parameters_of_it, narrows_the_table]
)
def test_what_the_program_asks_for_and_what_stays_narrow_is_not(program):
    assert compared_by(program, "wide") == []


def test_it_is_redundant_work_with_its_part_of_the_backward(tmp_path):
    (waste,) = wastes_of(meets_a_table, tmp_path)
    assert (waste.cause, waste.site) == (Cause.REDUNDANT_WORK, f"{__file__}:{line_of(meets_a_table)}")
    assert 0 < waste.share < 0.5


def test_the_look_alike_is_quiet(tmp_path):
    assert wastes_of(narrows_the_table, tmp_path) == ()
