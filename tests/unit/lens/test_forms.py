"""Operations that torch has in a faster form: told from what both take, at the line that can change it."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from unit.lens.test_alike import seen_of
from unit.lens.test_logs_and_lists import RANK
from unit.lens.test_stalls import line_of

from emberward.findings import Cause
from emberward.lens import FormTimes, RankOperations, form_key, forms_to_measure
from emberward.lens._forms import other_forms
from emberward.lens._operations import Form
from emberward.sources.forms import measured_forms

ATTENTION = {
    "products": 8, "queries": 256, "keys": 256, "width": 32, "values": 32, "dtype": "float32",
    "mask": "causal", "dropout": 0.0, "needs_grad": True,
}  # fmt: skip
LOOP, BLOCK, OTHER = ("train.py", 30), ("net.py", 5), ("net.py", 9)
SHORT = {**ATTENTION, "queries": 16, "keys": 16}
FASTER = FormTimes(now_low_s=0.0070, now_s=0.0075, other_s=0.0030, other_high_s=0.0035)
STEP_S = 0.040


def rank_of(*forms, rank=0):
    return RankOperations(
        rank=rank, device="cpu", device_name="cpu", threads=1, main=0, bounds_s=(0.0, STEP_S), operations=(),
        parameters=(), free_bytes=None, why_short=None, is_cut=False, forms=forms,
    )  # fmt: skip


def wastes(*ranks, times=FASTER):
    bounds_s = tuple(STEP_S * step for step in range(11))
    samples = [replace(RANK, rank=each.rank, bounds_s=bounds_s) for each in ranks]
    measured = {form_key(form.computes): times for each in ranks for form in each.forms}
    return other_forms(ranks, samples, measured)


def test_attention_is_told_where_it_is_computed_with_what_the_other_form_saves():
    (waste,) = wastes(rank_of(Form((BLOCK, LOOP), ATTENTION, 2.0), Form((BLOCK, OTHER, LOOP), SHORT, 1.0)))
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, "net.py:5")
    assert waste.cost_s == pytest.approx(3 * 0.0045)
    assert waste.share == pytest.approx(3 * 0.0045 / STEP_S)
    assert "takes 40% of its time" in waste.evidence[1]


def test_two_lines_are_two():
    found = wastes(rank_of(Form((BLOCK, LOOP), ATTENTION, 2.0), Form((OTHER, LOOP), ATTENTION, 1.0)))
    assert {waste.site: round(1000 * waste.cost_s, 3) for waste in found} == {"net.py:5": 9.0, "net.py:9": 4.5}


@pytest.mark.parametrize(
    "times",
    [
        replace(FASTER, other_s=0.008, other_high_s=0.0085),
        # No more than by chance: the quartiles meet.
        replace(FASTER, now_low_s=0.0034),
        # Less than is worth a change.
        replace(FASTER, other_s=0.00735, other_high_s=0.00738, now_low_s=0.0074),
    ],
)
def test_a_form_that_is_not_surely_faster_is_not_told(times):
    assert wastes(rank_of(Form((BLOCK, LOOP), ATTENTION, 2.0)), times=times) == ()


def test_of_ranks_the_one_that_loses_most_is_told():
    ranks = [rank_of(Form((BLOCK,), ATTENTION, calls), rank=rank) for rank, calls in enumerate((2.0, 3.0))]
    (waste,) = wastes(*ranks)
    assert waste.ranks == (1,)
    assert waste.cost_s == pytest.approx(3 * 0.0045)


def test_the_largest_is_measured_first_and_equal_ones_once():
    forms = [Form((line,), SHORT, 1.0) for line in (BLOCK, OTHER)]
    assert forms_to_measure([rank_of(*forms, Form((BLOCK,), ATTENTION, 1.0))]) == [ATTENTION, SHORT]


Q, K, V = (torch.randn(8, 384, 32, requires_grad=True) for _ in range(3))


def attends_piece_by_piece(step):
    weights = (Q @ K.transpose(-2, -1)).softmax(-1)  # here
    return (weights @ V).square().mean()


def attends_in_one(step):
    return F.scaled_dot_product_attention(Q[None], K[None], V[None]).square().mean()


@pytest.mark.parametrize("program", [attends_piece_by_piece, attends_in_one])
def test_a_program_that_writes_its_attention_out_is_told_what_torch_has(program, tmp_path):
    def step(number):
        program(number).backward()

    operations, samples = seen_of(step, tmp_path)
    forms = forms_to_measure([operations])
    times = {
        form_key(form): FormTimes(**each)
        for form, each in zip(forms, measured_forms(forms, threads=1, ranks=1), strict=True)
    }
    found = [each.site for each in other_forms([operations], [samples], times)]
    assert found == ([f"{__file__}:{line_of(program)}"] if program is attends_piece_by_piece else [])
