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
    "form": "attention", "products": 8, "queries": 256, "keys": 256, "width": 32, "values": 32, "dtype": "float32",
    "mask": "causal", "dropout": 0.0, "needs_grad": True,
}  # fmt: skip
CONVOLUTION = {
    "form": "convolution", "given": [2, 3, 8, 8], "weight": [4, 3, 3, 3], "stride": [1, 1], "padding": [1, 1],
    "dilation": [1, 1], "groups": 1, "is_last": False, "dtype": "float32", "needs_grad": True,
    "needs_input_grad": False,
}  # fmt: skip
LOOP, MODEL, BLOCK, OTHER = ("train.py", 30), ("train.py", 12), ("net.py", 5), ("net.py", 9)
FASTER = FormTimes(now_low_s=0.028, now_s=0.030, other_s=0.012, other_high_s=0.014, forward_s=0.010)
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


def test_attention_is_told_where_it_is_written_out_with_what_the_other_form_saves():
    (waste,) = wastes(rank_of(Form((BLOCK, MODEL, LOOP), ATTENTION, 0.005)))
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, "net.py:5")
    # Of 5 ms in the forward, with the backward 15 ms, the other form takes 40%.
    assert waste.cost_s == pytest.approx(0.009)
    assert waste.share == pytest.approx(0.009 / STEP_S)
    assert "takes 40% of that" in waste.evidence[0]


def test_a_model_s_convolutions_are_one_at_the_line_around_all():
    other = {**CONVOLUTION, "stride": [2, 2]}
    rank = rank_of(Form((BLOCK, MODEL, LOOP), CONVOLUTION, 0.002), Form((OTHER, BLOCK, MODEL, LOOP), other, 0.001))
    (waste,) = wastes(rank)
    assert (waste.cause, waste.site) == (Cause.MEMORY_FORMAT, "net.py:5")
    assert waste.cost_s == pytest.approx(0.0054)
    assert "channels_last" in waste.evidence[0]


def test_images_that_have_their_channels_last_may_be_faster_without():
    (waste,) = wastes(rank_of(Form((MODEL,), {**CONVOLUTION, "is_last": True}, 0.002)))
    assert "contiguous" in waste.evidence[0]


@pytest.mark.parametrize(
    "times",
    [
        replace(FASTER, other_s=0.031),
        # No more than by chance: the quartiles meet.
        replace(FASTER, now_low_s=0.013),
        # Less than is worth a change.
        replace(FASTER, other_s=0.0298, other_high_s=0.0299, now_low_s=0.0299),
    ],
)
def test_a_form_that_is_not_surely_faster_is_not_told(times):
    assert wastes(rank_of(Form((BLOCK, MODEL, LOOP), ATTENTION, 0.005)), times=times) == ()


def test_of_ranks_the_one_that_loses_most_is_told():
    ranks = [rank_of(Form((BLOCK,), ATTENTION, seconds), rank=rank) for rank, seconds in enumerate((0.004, 0.006))]
    (waste,) = wastes(*ranks)
    assert waste.ranks == (1,)
    assert waste.cost_s == pytest.approx(0.0108)


def test_what_could_not_save_enough_is_not_measured():
    little = Form((BLOCK,), CONVOLUTION, 0.0001)
    much = Form((BLOCK,), ATTENTION, 0.004)
    assert forms_to_measure([rank_of(little, much)]) == [ATTENTION]
    # Two small ones of the same sizes are one.
    both = [Form((line,), CONVOLUTION, 0.0002) for line in (BLOCK, OTHER)]
    assert forms_to_measure([rank_of(*both)]) == [CONVOLUTION]


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
        form_key(form): FormTimes(**each) for form, each in zip(forms, measured_forms(forms, threads=1), strict=True)
    }
    found = [each.site for each in other_forms([operations], [samples], times)]
    assert found == ([f"{__file__}:{line_of(program)}"] if program is attends_piece_by_piece else [])
