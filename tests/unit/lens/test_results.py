"""Results that nothing reads: told at their line, unless a rank reads them."""

from dataclasses import replace

import torch
from unit.lens.test_alike import seen_of
from unit.lens.test_stalls import line_of

from emberward.findings import Cause
from emberward.lens import Sources
from emberward.lens._alike import alike_work

WIDE = torch.randn(600, 600)
WEIGHT = torch.randn(600, 600, requires_grad=True)


def shows_a_figure_to_nobody(step):
    (WIDE @ WEIGHT).square().mean().backward()
    WEIGHT.grad = None
    with torch.no_grad():
        return ((WIDE + step) @ WEIGHT).softmax(1).amax()  # here


def test_it_is_told_where_no_rank_reads_it(tmp_path):
    def program(step):
        shows_a_figure_to_nobody(step)

    operations, samples = seen_of(program, tmp_path)
    (waste,) = [each for each in told(operations, samples) if each.cause is Cause.UNUSED_RESULT]
    assert waste.site == f"{__file__}:{line_of(shows_a_figure_to_nobody)}"
    assert "leads to nothing" in waste.evidence[0]
    reads = replace(operations, rank=1, unread_results={})
    assert all(each.cause is not Cause.UNUSED_RESULT for each in told(operations, samples, reads))


def told(operations, samples, *others):
    ranks = (operations, *others)
    return alike_work(ranks, [replace(samples, rank=each.rank) for each in ranks], Sources())
