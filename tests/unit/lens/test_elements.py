"""Loops that read a tensor number by number, run for real under the sampler, and loops that look like them."""

from dataclasses import replace

import pytest
import torch
from unit.lens.test_stalls import line_of, measure, stalls

from emberward.findings import Cause

FIRST, SECOND = torch.arange(1500) % 7, torch.arange(1500) % 5
WORDS = [str(each) for each in range(1500)]
TOTALS = [0.0] * 7
TOP = 3
LAYER, INPUTS = torch.nn.Linear(64, 1), torch.ones(8, 400, 64)


def reads_each(step):
    for kind, number in zip(FIRST, SECOND, strict=True):
        TOTALS[kind.item()] += float(number)  # here


def checks_each(step):
    return sum(1 for i in range(len(FIRST)) if FIRST[i] == SECOND[i])


def checks_each_or_draws(step):
    for i in range(len(FIRST)):
        if FIRST[i] < TOP or TOTALS[0] < 0:  # here
            continue


def picks_by_each(step):
    total = torch.zeros(())
    for i in range(len(FIRST)):
        total = total + (SECOND[i] if FIRST[i] else 1)  # here
    return total


def reads_a_norm_of_each(step):
    for each in FIRST:
        TOTALS[0] += each.float().norm().item()  # here


def counts_each_kind(step):
    for each in range(700):
        TOTALS[each % 7] = ((each == FIRST) & (each == SECOND)).sum().item()  # here


def reads_one_of_each_batch(step):
    for batch in INPUTS:
        TOTALS[0] += LAYER(batch).sum().item()


def trains_on_each(step):
    for batch in INPUTS:
        loss = LAYER(batch).sum()
        if batch[0, 0] == 1:
            loss.backward()


def reads_words(step):
    return [i for i in range(len(WORDS)) for _ in range(40) if WORDS[i] == "7"]


@pytest.mark.parametrize(
    ("loop", "cause"),
    [
        (reads_each, Cause.ITEM),
        (reads_a_norm_of_each, Cause.ITEM),
        (counts_each_kind, Cause.ITEM),
        (checks_each, Cause.BOOL),
        (checks_each_or_draws, Cause.BOOL),
        (picks_by_each, Cause.BOOL),
    ],
)
def test_a_loop_that_reads_a_tensor_number_by_number_is_one_stall(loop, cause, tmp_path):
    (found,) = stalls(replace(measure(tmp_path, loop), num_reads=1500.0))
    line = line_of(loop) if loop is not checks_each else checks_each.__code__.co_firstlineno + 1
    assert (found.cause, found.site) == (cause, f"{__file__}:{line}")


@pytest.mark.parametrize("loop", [reads_one_of_each_batch, trains_on_each])
def test_a_loop_over_batches_is_none(loop, tmp_path):
    found = stalls(replace(measure(tmp_path, loop), num_reads=1500.0))
    assert not [each for each in found if each.cause is Cause.BOOL or each.gain_ms_per_step > 1]


def test_a_loop_over_what_is_no_tensor_is_none(tmp_path):
    """Whatever its text says: no number was taken out of a tensor in the observed steps."""
    assert stalls(replace(measure(tmp_path, reads_words), num_reads=3.0)) == []
