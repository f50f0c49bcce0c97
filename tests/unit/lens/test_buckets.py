"""DDP whose buckets are too small, and where its line comes from."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from unit.lens.test_work import NONE, rank_of, work_of

from emberward.findings import Cause
from emberward.lens import wastes_of
from emberward.sources import _units

SMALL = json.dumps([[[700]], ["float"]])
LARGE = json.dumps([[[400_000]], ["float"]])


def sums(number, *, bucket=SMALL, count=6, site="train.py:9", replicated=("train.py:4",)):
    """A rank whose backward of 9 ms waits 1 ms for each of `count` sums of a bucket."""
    rows = [(f"emberward::backward {site}", NONE, 0.0, 9.0, -1, False)]
    for index in range(count):
        rows += [
            ("c10d::allreduce_", NONE, 0.1 + 1.2 * index, 0.01, -1, False),
            ("gloo:all_reduce", bucket, 0.2 + 1.2 * index, 1.0, -1, True),
        ]
    return replace(rank_of(number, rows), replicated=replicated)


def wastes(**said):
    ranks = [sums(number, **said) for number in (0, 1)]
    return wastes_of(work_of(ranks), ranks)


def test_starts_of_all_sums_but_one_are_told_at_the_line_that_makes_ddp():
    (waste,) = wastes()
    assert (waste.cause, waste.site, waste.ranks) == (Cause.TINY_MESSAGES, "train.py:4", (0, 1))
    assert waste.cost_s == pytest.approx(0.0066 * 5 / 6 * 65_536 / (65_536 + 2800), rel=0.02)
    assert waste.evidence == ("DDP sums 6 buckets a step of 65,536 bytes or less, 16,800 bytes in all",)


@pytest.mark.parametrize(
    "said",
    [{"bucket": LARGE}, {"count": 3}, {"replicated": ()}],
    ids=["large buckets", "few buckets", "sums of the program's own"],
)
def test_the_look_alikes_are_quiet(said):
    assert wastes(**said) == ()


def test_ddp_is_known_by_the_line_that_makes_it(monkeypatch):
    monkeypatch.setattr(_units, "UNITS", [])
    monkeypatch.setattr(_units, "REPLICATED", [])
    monkeypatch.setattr(_units.CURRENT, "live", object())
    made = _units._wrapped(lambda unit, params: None)
    made(None, torch.nn.Linear(2, 2))
    assert f"{__file__}:{sys._getframe().f_lineno - 1}" == _units.REPLICATED[0]
    made(None, [torch.zeros(3)])
    assert (_units.UNITS[0][1], len(_units.REPLICATED)) == (12, 1)
