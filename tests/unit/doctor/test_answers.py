"""A value that is missing: of one device, of most, on all ranks but the first."""

import pytest

from emberward.doctor import Fleet, Result, SetOutcome
from emberward.doctor._answers import Answers

FLEET = Fleet.of([f"n{i}" for i in range(6)], 2)
SETS = [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]


def failed(gives, sets=SETS) -> dict[int, str]:
    results = [
        Result(
            devices=devices,
            outcome=SetOutcome.PASS,
            seconds=1.0,
            values={number: 10.0 for rank, number in enumerate(devices) if gives(rank, number)},
        )
        for devices in sets
    ]
    judged = Answers(FLEET).judged(results)
    assert all((each.outcome is SetOutcome.FAIL) == bool(each.failed) for each in judged)
    return {number: each.reports[number] for each in judged for number in each.failed}


def test_a_device_that_answers_without_the_value_of_the_others_has_failed():
    assert failed(lambda rank, number: number != 9) == {9: "ok without a value, which the others gave"}
    assert list(failed(lambda rank, number: number != 9, [(number,) for number in range(12)])) == [9]


@pytest.mark.parametrize(
    "gives",
    [
        lambda rank, number: False,
        lambda rank, number: True,
        lambda rank, number: rank == 0,
        lambda rank, number: number % 2 == 0,
        lambda rank, number: number < 6,
    ],
    ids=["nobody", "all", "rank 0", "the first of each host", "half of them"],
)
def test_a_value_that_a_probe_gives_here_and_not_there_is_no_failure(gives):
    assert failed(gives) == {}


def test_a_second_device_that_one_host_alone_has_may_be_the_one_that_gives_none():
    sets = [(0, 2, 4), (6, 8, 10, 11)]
    assert failed(lambda rank, number: number != 11, sets) == {}
