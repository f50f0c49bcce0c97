"""A device that is wrong in one of 50 tries, its look-alikes, and when a device is cleared."""

import random
from collections import Counter

import pytest

from emberward.doctor import Examination, Fleet, Links, Plan, ProbePlan, Result, SetOutcome, findings_of
from emberward.doctor._belief import Belief
from emberward.doctor._search import SPURIOUS
from emberward.doctor._tries import needed_tries


def examined(num: int, fails, *, seed: int = 0, max_rounds: int) -> Plan:
    """A plan run until it has found something, or to its end, where `fails(devices)` says whether a test fails."""
    plan = Plan(Fleet.of([f"n{i}" for i in range(num)], 1), ProbePlan(name="sim"), random.Random(seed))
    while plan.round < max_rounds and not plan.settled and (sets := plan.next_round()):
        plan.learn(
            [
                Result(
                    devices=devices,
                    outcome=SetOutcome.FAIL if fails(devices) else SetOutcome.PASS,
                    seconds=1.0,
                    links=Links.ALL,
                )
                for devices in sets
            ]
        )
    return plan


def test_a_device_that_fails_in_every_50th_try_is_found():
    """Six failures in 300 tries make the odds 1e-3 x 21^6 x (0.98 / 0.999)^294 = 300: 99 are needed."""
    tries: Counter[int] = Counter()

    def fails(devices):
        tries.update(devices)
        return 2 in devices and tries[2] % 50 == 25

    plan = examined(8, fails, max_rounds=600)
    assert [each.part.key for each in plan.suspects()] == [(2,)]
    assert plan.round <= 450


@pytest.mark.parametrize("seed", range(2))
def test_a_probe_that_fails_in_one_of_50_tries_of_everybody_accuses_nobody_and_says_so(seed):
    rng = random.Random(seed)
    plan = examined(8, lambda devices: any(rng.random() < 0.02 for _ in devices), seed=seed, max_rounds=70)
    assert plan.suspects() == []
    (finding,) = findings_of(Examination(fleet=plan.fleet, plans=(plan,), seconds=1.0))
    assert finding.code == "E106"
    assert "of each member" in finding.message


def test_who_failed_by_chance_is_tried_longer_and_cleared():
    rounds: Counter[int] = Counter()

    def fails(devices):
        rounds.update(devices)
        return 2 in devices and rounds[2] in (40, 90)

    plan = examined(4, fails, max_rounds=1000)
    assert plan.suspects() == []
    assert plan.belief.tries[2, False] + plan.belief.tries[2, True] >= needed_tries({0.02: 1.0}, 2)


@pytest.mark.parametrize(("passes", "clusters"), [(0, 1), (600, 2)])
def test_failures_that_only_a_part_has_in_common_which_passed_tries_refute_are_weighed_apart(passes, clusters):
    belief = Belief(Fleet.of([f"n{i}" for i in range(16)], 1), common_prior=0.02)
    for devices in ((0, 1, 2, 3), (3, 4, 5, 6)):
        belief.learn(devices, passed=False, links=Links.ALL)
    if passes:
        belief.learn((3, *range(8, 16)), passed=True, links=Links.ALL, tries=passes)
    assert len(belief.clusters()) == clusters


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
