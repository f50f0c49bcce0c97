"""Gradients that each micro-batch reduces, though the optimizer reads them once a step."""

import json
from dataclasses import replace

import pytest
from unit.lens.test_debug_modes import measured_of
from unit.lens.test_work import BUCKET, NONE, rank_of, work_of

from emberward.findings import Cause
from emberward.lens import wastes_of

SMALL = json.dumps([[[700]], ["float"]])
NO_ROOM = 1000


def accumulates(number, *, buckets, stepped=(9.0,), op="allreduce_", free=1 << 40):
    """A rank with a backward of 2 ms for each of `buckets`, of which 1.1 ms wait for the sum of that bucket, if any."""
    rows = [("Optimizer.step#SGD.step", NONE, at, 0.5, -1, False) for at in stepped]
    for index, bucket in enumerate(buckets):
        begin = 3.0 * index
        rows.append(("emberward::backward train.py:9", NONE, begin, 2.0, -1, False))
        if bucket is not None:
            rows += [
                (f"c10d::{op}", NONE, begin + 0.9, 0.01, -1, False),
                ("gloo:all_reduce", bucket, begin + 1.0, 1.0, -1, True),
            ]
    return rank_of(number, rows, free=free)


def wastes(**said):
    ranks = [accumulates(number, **said) for number in (0, 1)]
    return wastes_of(work_of(ranks), ranks)


@pytest.mark.parametrize("op", ["allreduce_", "_reduce_scatter_base_"])
def test_all_reductions_of_a_step_but_the_last_are_told_at_the_backward(op):
    (waste,) = wastes(buckets=(BUCKET, BUCKET, BUCKET), op=op)
    assert (waste.cause, waste.site, waste.ranks) == (Cause.REDUCED_TWICE, "train.py:9", (0, 1))
    assert waste.cost_s == pytest.approx(2 * 0.0011, rel=0.01)
    assert waste.evidence == (
        "2 backwards a step before the last one reduce what it reduces again: 2 calls, 8,000 bytes",
    )


@pytest.mark.parametrize(
    "said",
    [
        {"buckets": (BUCKET,)},
        {"buckets": (None, None, BUCKET)},
        {"buckets": (BUCKET, SMALL)},
        {"buckets": (BUCKET, BUCKET), "stepped": (2.5, 9.0)},
        {"buckets": (BUCKET, BUCKET), "op": "_reduce_scatter_base_", "free": NO_ROOM},
    ],
    ids=["one backward", "no_sync", "two models", "an optimizer's step between", "no room for whole gradients"],
)
def test_the_look_alikes_are_quiet(said):
    assert wastes(**said) == ()


@pytest.mark.parametrize(("cores", "cost_ms"), [(2, 4.0), (4, 2.2)])
def test_where_the_ranks_compute_on_all_processors_they_cost_what_making_them_takes(cores, cost_ms):
    ranks = [accumulates(number, buckets=(BUCKET, BUCKET, BUCKET)) for number in (0, 1)]
    samples = [
        replace(measured_of(rank), rank=rank.rank, others_s=0.006 * rank.num_steps, cores=cores) for rank in ranks
    ]
    (waste,) = wastes_of(work_of(ranks, samples), ranks, {}, samples)
    assert 1000 * waste.cost_s == pytest.approx(cost_ms, rel=0.02)  # Two of three sums, of 6 ms on processors.
