"""Products that an index would do: what the probe sees of their factors, and what is told of them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from unit.lens.test_alike import compared_by, wastes_of
from unit.lens.test_stalls import line_of

from emberward.findings import Cause

NUM, GROUPS, WIDTH = 2400, 300, 64
TABLE = nn.Parameter(torch.randn(GROUPS, WIDTH))
DEEP = nn.Sequential(nn.Linear(WIDTH, 8 * WIDTH), nn.ReLU(), nn.Linear(8 * WIDTH, WIDTH))
IDS = torch.randint(GROUPS, (NUM,))
POINTS = torch.randn(NUM, WIDTH)
BELONGS = F.one_hot(IDS, GROUPS).float()
DENSE = torch.rand(NUM, GROUPS)


def takes_rows_by_a_product(step):
    rows = F.one_hot((IDS + step) % GROUPS, GROUPS).float() @ TABLE  # here
    rows.sum().backward()


def takes_rows_by_a_layer(step):
    return F.linear(BELONGS, TABLE.t())  # here


def adds_up_by_group(step):
    return BELONGS.t() @ POINTS  # here


def adds_up_by_an_equation(step):
    return torch.einsum("ng,nd->gd", BELONGS, POINTS)  # here


def adds_up_in_batches(step):
    return torch.bmm(BELONGS.view(4, NUM // 4, GROUPS).transpose(1, 2), POINTS.view(4, NUM // 4, WIDTH))  # here


def scales_from_the_right(step):
    return POINTS.t() @ BELONGS  # here


def takes_rows_by_index(step):
    return TABLE[(IDS + step) % GROUPS]  # here


def multiplies_what_is_full(step):
    return DENSE @ TABLE  # here


def begins_with_zeros(step):
    return torch.zeros(NUM, GROUPS) @ TABLE  # here


def joins_a_few_to_what_is_full(step):
    return torch.cat([DENSE[:, :200], BELONGS[:, :100]], 1) @ TABLE  # here


def has_weights_that_are_full_of_zeros(step):
    return BELONGS.clone().requires_grad_() @ TABLE  # here


def takes_one_column(step):
    return POINTS[:, :1] @ TABLE[:1]  # here


PICKS = [
    *(takes_rows_by_a_product, takes_rows_by_a_layer, adds_up_by_group, adds_up_by_an_equation, adds_up_in_batches),
    scales_from_the_right,
]
OTHERS = [
    *(takes_rows_by_index, multiplies_what_is_full, begins_with_zeros, joins_a_few_to_what_is_full),
    *(has_weights_that_are_full_of_zeros, takes_one_column),
]


@pytest.mark.parametrize("program", PICKS)
def test_a_product_that_picks_is_seen(program):
    found = {where[0][1]: (picks_ns, all_ns) for where, picks_ns, all_ns, _ in compared_by(program, "picks")}
    picks_ns, all_ns = found[line_of(program)]
    assert 0.5 < picks_ns / all_ns <= 1


@pytest.mark.parametrize("program", OTHERS)
def test_another_product_is_none(program):
    assert compared_by(program, "picks") == []


def test_it_is_told_at_its_line_with_what_makes_its_rows(tmp_path):
    (waste,) = wastes_of(takes_rows_by_a_product, tmp_path)
    assert (waste.cause, waste.site) == (Cause.ONE_HOT, f"{__file__}:{line_of(takes_rows_by_a_product)}")
    assert waste.evidence[0].startswith("of the matrix in a product of takes_rows_by_a_product() no more numbers than")


def test_the_look_alike_is_quiet(tmp_path):
    assert wastes_of(takes_rows_by_index, tmp_path) == ()
