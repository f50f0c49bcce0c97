"""Attention that is written out, as it is seen below autograd, and what both forms take."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from unit.lens.test_stalls import line_of

from emberward.sources._results import ResultsWatch
from emberward.sources.forms import measured_forms

PRODUCTS, LENGTH, WIDTH = 6, 16, 8
QUERIES, KEYS, VALUES = (torch.randn(2, 3, LENGTH, WIDTH, requires_grad=True) for _ in range(3))
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
TOKENS = torch.rand(2, 1, 1, LENGTH) > 0.5
GATE = torch.rand(LENGTH, LENGTH)
BIAS = torch.randn(LENGTH, LENGTH, requires_grad=True)
ATTENTION = nn.MultiheadAttention(WIDTH, 2, batch_first=True)


def written_out():
    scores = QUERIES @ KEYS.transpose(-2, -1)  # here
    return (scores.softmax(-1) @ VALUES).sum()


def scaled_masked_and_dropped():
    scores = (QUERIES @ KEYS.transpose(-2, -1) / WIDTH**0.5).masked_fill(LATER, -torch.inf)  # here
    return (F.dropout(scores.softmax(-1), 0.25) @ VALUES).sum()


def masked_by_a_sum():
    scores = QUERIES @ KEYS.transpose(-2, -1) + torch.zeros(LENGTH, LENGTH).masked_fill(LATER, -1e9)  # here
    return (F.softmax(scores, -1) @ VALUES).sum()


def masked_by_tokens():
    scores = (QUERIES @ KEYS.transpose(-2, -1)).masked_fill(TOKENS, -1e9)  # here
    return (F.softmax(scores, -1) @ VALUES).sum()


def gives_its_weights_on():
    weights = (QUERIES @ KEYS.transpose(-2, -1)).softmax(-1)
    return (weights @ VALUES).sum() + weights.amax(-1).sum()


def reads_its_scores():
    scores = QUERIES @ KEYS.transpose(-2, -1)
    return (scores.softmax(-1) @ VALUES).sum() + scores.square().mean()


def trains_a_bias():
    return ((QUERIES @ KEYS.transpose(-2, -1) + BIAS).softmax(-1) @ VALUES).sum()


def caps_its_scores():
    return ((QUERIES @ KEYS.transpose(-2, -1)).tanh().softmax(-1) @ VALUES).sum()


def weighs_its_weights():
    return ((QUERIES @ KEYS.transpose(-2, -1)).softmax(-1) * GATE @ VALUES).sum()


def over_queries():
    return ((QUERIES @ KEYS.transpose(-2, -1)).softmax(-2) @ VALUES).sum()


def without_a_softmax():
    return (QUERIES @ KEYS.transpose(-2, -1) @ VALUES).sum()


def in_one_operation():
    return F.scaled_dot_product_attention(QUERIES, KEYS, VALUES, is_causal=True).sum()


def of_torch_s_layer():
    return ATTENTION(QUERIES[0], KEYS[0], VALUES[0])[0].sum()


def forms_of(program):
    """Place and form of each that is seen in two steps, and how often a step has it."""
    watch = ResultsWatch()
    watch.start()
    for step in range(2):
        program().backward()
        if not step:
            watch.stepped()
    watch.stop()
    watch.stepped()
    return [line["form"] for line in watch.lines() if "form" in line]


@pytest.mark.parametrize(
    ("program", "mask", "dropout"),
    [
        (written_out, "none", 0.0),
        (scaled_masked_and_dropped, "causal", 0.25),
        (masked_by_a_sum, "causal", 0.0),
        (masked_by_tokens, "other", 0.0),
    ],
)
def test_attention_that_is_written_out_is_seen_with_its_sizes(program, mask, dropout):
    ((where, form, calls),) = forms_of(program)
    assert where[0] == (__file__, line_of(program))
    assert form == {
        "products": PRODUCTS, "queries": LENGTH, "keys": LENGTH, "width": WIDTH, "values": WIDTH,
        "dtype": "float32", "mask": mask, "dropout": dropout, "needs_grad": True,
    }  # fmt: skip
    assert calls == 1


def test_torch_s_own_layer_writes_its_attention_out_for_weights_that_nobody_takes():
    assert forms_of(of_torch_s_layer) == []  # It gives their mean on.


@pytest.mark.parametrize(
    "program",
    [
        gives_its_weights_on, reads_its_scores, weighs_its_weights, trains_a_bias, caps_its_scores,
        over_queries, without_a_softmax, in_one_operation,
    ],
)  # fmt: skip
def test_what_one_operation_can_not_do_is_no_attention(program):
    assert forms_of(program) == []


def test_both_forms_are_measured_in_turns():
    attention = {
        "products": 8, "queries": 256, "keys": 256, "width": 32, "values": 32,
        "dtype": "float32", "mask": "causal", "dropout": 0.0, "needs_grad": True,
    }  # fmt: skip
    for ranks in (1, 2):
        found = measured_forms([attention, {**attention, "mask": "other", "dropout": 0.1}], threads=1, ranks=ranks)
        assert len(found) == 2
        for times in found:
            assert 0 < times["now_low_s"] <= times["now_s"]
            assert 0 < times["other_s"] <= times["other_high_s"]
        # Scores of 2 MB go through memory in the one form, and not in the other.
        assert found[0]["other_s"] < found[0]["now_s"]


def test_without_forms_no_process_is_started():
    assert measured_forms([], threads=1, ranks=1) == []
