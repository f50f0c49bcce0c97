"""A probe that fails by itself now and then, and a device that does."""

import random

import pytest

from emberward.doctor import Examination, Fleet, Links, Plan, ProbePlan, Result, SetOutcome, findings_of
from emberward.doctor._chance import Tally

FLEET = Fleet.of([f"n{i}" for i in range(4)], 2)


def examined(seed: int, *, own=lambda devices, rng: False, sick=lambda devices, rng: False, rounds: int = 50) -> Plan:
    """A plan after so many rounds at most; `own` says whether a member fails by the probe's own fault."""
    plan, rng = Plan(FLEET, ProbePlan(name="sim"), random.Random(seed)), random.Random(seed)
    while plan.round < rounds and (sets := plan.next_round()):
        results = []
        for devices in sets:
            failed = frozenset(number for number in devices if own(devices, rng))
            outcome = SetOutcome.FAIL if failed or sick(devices, rng) else SetOutcome.PASS
            results.append(Result(devices=devices, outcome=outcome, seconds=1.0, links=Links.ALL, failed=failed))
        plan.learn(results)
    return plan


def said(plan: Plan) -> list[tuple[str, str]]:
    examination = Examination(fleet=plan.fleet, plans=(plan,), seconds=1.0)
    return [(each.code, each.message) for each in findings_of(examination)]


@pytest.mark.parametrize("seed", range(4))
def test_a_probe_that_fails_in_one_of_eight_tries_of_everybody_accuses_nobody_and_says_so(seed):
    plan = examined(seed, own=lambda devices, rng: rng.random() < 1 / 8)
    assert plan.suspects() == []
    ((code, message),) = said(plan)
    assert code == "E106"
    assert message.startswith("probe sim itself fails in about 1 of ")
    assert message.endswith(" tries of each member, so that it accuses no device")
    assert 5 <= plan.belief.tally.one_in()[0] <= 12


def test_sets_that_do_not_always_meet_accuse_nobody():
    plan = examined(0, sick=lambda devices, rng: len(devices) > 1 and rng.random() < 0.2)
    assert plan.suspects() == []


@pytest.mark.parametrize("seed", range(3))
def test_one_device_that_fails_now_and_then_among_sound_ones_is_no_fault_of_the_probe(seed):
    plan = examined(seed, sick=lambda devices, rng: 3 in devices and rng.random() < 0.5)
    assert [each.part.key for each in plan.suspects()] == [(3,)]
    assert [code for code, _ in said(plan)] == ["E101"]


def test_the_share_of_tries_is_read_off_sets_of_any_size():
    tally = Tally()
    for size, passes, fails in ((1, 870, 130), (4, 570, 430)):
        tally.learn(size, passed=True, tries=passes)
        for _ in range(fails):
            tally.learn(size, passed=False, tries=1)
    assert tally.one_in() == (8, False)


def test_sets_of_two_or_more_that_do_not_always_meet_are_told_from_members():
    tally = Tally()
    for size in (1, 2, 8):
        tally.learn(size, passed=True, tries=80)
    for size in (2, 8):
        for _ in range(20):
            tally.learn(size, passed=False, tries=1)
    assert tally.one_in() == (5, True)
