"""Collectives that bring what every rank holds: what the watch reads, and what it takes for that to be said."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from emberward.findings import Cause
from emberward.lens import held_by_all, operations_of
from emberward.sources._held import METHODS, HeldWatch

HEAD = {
    "form": 1, "rank": 0, "device": "cpu", "threads": 1, "bounds_ns": [0, 1], "offset_ns": 0, "free_bytes": None,
    "why_short": None, "is_cut": False,
}  # fmt: skip
GRADIENT = torch.linspace(-1, 1, 1024)


@pytest.fixture(scope="module", autouse=True)
def alone():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def sums(*tensors, call=dist.all_reduce):
    watch = HeldWatch()
    watch.start()
    try:
        for each in tensors:
            call(each.clone())
    finally:
        watch.stop()
    return [line["held"] for line in watch.lines()]


def test_equal_numbers_have_one_sum_and_others_another_and_the_calls_line_is_the_programs():
    first, second, other = sums(GRADIENT, GRADIENT, GRADIENT + 1e-6)
    assert first == second
    assert first[5] != other[5]
    assert first[0] == __file__
    assert first[2] == "allreduce"
    assert first[4] == 1
    assert sums(GRADIENT, call=lambda each: dist.broadcast(each, 0))[0][2] == "broadcast"


def test_a_flag_and_one_number_many_times_say_nothing():
    said = sums(torch.tensor([3.0]), torch.zeros(1024), torch.full((1024,), 2.5), GRADIENT[:100])
    assert [call[5] for call in said] == [None] * 4


def test_the_class_is_as_it_was_afterwards():
    before = [vars(ProcessGroup)[name] for name in METHODS]
    sums(GRADIENT)
    assert [vars(ProcessGroup)[name] for name in METHODS] == before
    dist.all_reduce(GRADIENT.clone())


def told(*by_rank):
    """Of ranks that make the calls (line, operation, sum) in a group of two."""
    ranks = [
        operations_of(
            [
                {**HEAD, "rank": rank},
                *({"held": ["train.py", line, op, "world", 2, checksum]} for line, op, checksum in calls),
                {"end": True},
            ]
        )
        for rank, calls in enumerate(by_rank)
    ]
    return {line[1]: cause for line, cause in held_by_all(ranks).items()}


ALIKE, FLAG = (7, "allreduce", 1), (7, "allreduce", None)


@pytest.mark.parametrize(
    ("by_rank", "wanted"),
    [
        ([[ALIKE, ALIKE]] * 2, {7: Cause.REDUCED_TWICE}),
        ([[(7, "broadcast", 1)]] * 2, {7: Cause.REDUNDANT_WORK}),
        ([[ALIKE, FLAG]] * 2, {7: Cause.REDUCED_TWICE}),
        ([[FLAG]] * 2, {}),
        ([[ALIKE], [(7, "allreduce", 2)]], {}),
        ([[ALIKE, ALIKE], [ALIKE, (7, "allreduce", 2)]], {}),
        ([[ALIKE, ALIKE], [ALIKE]], {}),
        ([[ALIKE]], {}),
        ([[ALIKE], [(8, "allreduce", 1)]], {}),
    ],
    ids=["alike", "broadcast", "beside a flag", "flag", "unlike", "once unlike", "one fewer", "one rank", "other line"],
)
def test_a_line_is_told_where_all_ranks_give_the_same_to_each_of_its_calls(by_rank, wanted):
    assert told(*by_rank) == wanted
