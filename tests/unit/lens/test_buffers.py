"""Buffers that DDP sends before each forward."""

import json

import pytest
from unit.lens.test_work import NONE, rank_of, work_of

from emberward.findings import Cause
from emberward.lens import wastes_of

QUEUE = json.dumps([[[500_000]], ["float"]])


def forwards(number, *, waits_ms=1.5, late_ms=0.0, at=1.1, steps=None):
    """A rank whose DDP comes to its forward `late_ms` later, and waits for the buffers; `at`: when it asks for them."""
    length = waits_ms - late_ms
    rows = [
        ("emberward::at train.py:9", NONE, 1.0, 6.0, -1, False),
        ("emberward::module DistributedDataParallel", NONE, 1.0, 6.0, -1, False),
        ("DistributedDataParallel.forward", NONE, 1.0, 6.0, -1, False),
        ("emberward::module Net", NONE, 3.0, 3.9, -1, False),
    ]
    asks = [
        ("c10d::broadcast_", NONE, at + late_ms, 0.1, -1, False),
        ("gloo:broadcast", QUEUE, at + 0.1 + late_ms, length, -1, True),
    ]
    return rank_of(number, rows, some=asks, some_steps=5 if steps is None else steps)


def wastes(*ranks):
    return wastes_of(work_of([*ranks]), [*ranks])


def test_what_a_forward_waits_for_its_buffers_is_told_at_the_line_that_calls_it():
    (waste,) = wastes(forwards(0), forwards(1))
    assert (waste.cause, waste.site) == (Cause.BROADCAST_BUFFERS, "train.py:9")
    assert waste.cost_s == pytest.approx(0.0016, rel=0.05)
    assert waste.evidence == ("1 broadcasts a step before DDP's forward, 2,000,000 bytes in all",)


def test_what_ranks_wait_for_the_last_one_is_not_the_buffers_doing():
    (waste,) = wastes(forwards(0), forwards(1, late_ms=0.9))
    assert waste.cost_s == pytest.approx(0.0007, rel=0.05)


@pytest.mark.parametrize(
    "said",
    [{"at": 3.2}, {"steps": 1}, {"waits_ms": 0.02}],
    ids=["the module's own", "now and then", "a batch norm's few numbers"],
)
def test_the_look_alikes_are_quiet(said):
    assert wastes(forwards(0, **said), forwards(1, **said)) == ()
