"""A device that is wrong in one of 50 tries, its look-alikes, and when a device is cleared."""

import random
from collections import Counter

import pytest

from emberward.doctor import Examination, Fleet, Links, Plan, ProbePlan, Result, SetOutcome, findings_of
from emberward.doctor._search import SPURIOUS
from emberward.doctor._tries import needed_tries

FLEET = Fleet.of([f"n{i}" for i in range(8)], 1)


def examined(fails, *, max_rounds: int) -> Plan:
    """A plan run until it has found something, or to its end, where `fails(devices)` says whether a test fails."""
    plan = Plan(FLEET, ProbePlan(name="sim"), random.Random(0))
    while plan.round < max_rounds and not plan.settled and (sets := plan.next_round()):
        outcomes = [SetOutcome.FAIL if fails(devices) else SetOutcome.PASS for devices in sets]
        plan.learn(
            [
                Result(devices=devices, outcome=outcome, seconds=1.0, links=Links.ALL)
                for devices, outcome in zip(sets, outcomes, strict=True)
            ]
        )
    return plan


def test_a_device_that_fails_in_every_50th_try_is_found_among_eight():
    """Six failures in 300 tries make the odds 1e-3 x 21^6 x (0.98 / 0.999)^294 = 300: 99 are needed."""
    tries: Counter[int] = Counter()

    def fails(devices):
        tries.update(devices)
        return 4 in devices and tries[4] % 50 == 25

    plan = examined(fails, max_rounds=600)
    assert [each.part.key for each in plan.suspects()] == [(4,)]
    assert plan.round <= 450


def test_a_probe_that_fails_in_one_of_50_tries_of_everybody_accuses_nobody_and_says_so():
    rng = random.Random(0)
    plan = examined(lambda devices: any(rng.random() < 0.02 for _ in devices), max_rounds=120)
    assert plan.suspects() == []
    (finding,) = findings_of(Examination(fleet=FLEET, plans=(plan,), seconds=1.0))
    assert finding.code == "E106"
    assert "of each member" in finding.message


def test_who_failed_by_chance_is_tried_longer_and_cleared():
    rounds: Counter[int] = Counter()

    def fails(devices):
        rounds.update(devices)
        return 2 in devices and rounds[2] in (40, 90)

    plan = examined(fails, max_rounds=1000)
    assert plan.suspects() == []
    assert plan.belief.tries[2, False] + plan.belief.tries[2, True] >= needed_tries({0.02: 1.0}, 2)


@pytest.mark.parametrize(
    ("rate", "fails", "tries"),
    [(0.02, 0, 228), (0.02, 1, 379), (0.02, 2, 530), (0.1, 0, 44), (0.5, 0, 7), (0.999, 0, 1)],
)
def test_a_device_is_cleared_by_so_many_tries(rate, fails, tries):
    assert needed_tries({rate: 1.0}, fails) == tries


def test_of_devices_that_fail_in_one_of_50_tries_at_most_one_in_100_is_cleared():
    needed = [needed_tries({0.02: 1.0}, fails) for fails in range(20)]
    p = 1 - (1 - SPURIOUS) * (1 - 0.02)
    # Of the devices that are not cleared yet, those with 0, 1, 2, ... failures; with 20 they never are.
    shares, cleared = [1.0, *(0.0 for _ in needed[1:])], 0.0
    for num in range(1, needed[-1]):
        shares = [share * (1 - p) + before * p for share, before in zip(shares, [0.0, *shares], strict=False)]
        for fails, least in enumerate(needed):
            if num - fails >= least:
                cleared, shares[fails] = cleared + shares[fails], 0.0
    assert 0.005 < cleared <= 0.01
