"""Who is waited for, by numbers alone: slow ranks of every amount, and all that only looks like one."""

import math
import random

import pytest

from emberward.health import late_ranks

STEP_S = 0.2
NUM = 64


def job(own, *, ranks=4, num=NUM, step_s=STEP_S):
    """`own(rank, step)` for each rank and step; a step lasts as long as its latest rank."""
    table = {rank: {step: own(rank, step) for step in range(num)} for rank in range(ranks)}
    lengths = {step: max(table[rank][step] for rank in table) + 0.01 for step in range(num)}
    return late_ranks(table, lengths)


def noisy(seed, spread, extra=lambda rank, step: 0.0):
    rng = random.Random(seed)
    return lambda rank, step: 0.18 * (1 + abs(rng.gauss(0, spread))) + extra(rank, step)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 32])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.03])
def test_a_rank_that_is_a_twentieth_slower_is_named(ranks, spread):
    for seed in range(3):
        slow = ranks - 1
        (late,) = job(noisy(seed, spread, lambda rank, _, s=slow: 0.01 * (rank == s)), ranks=ranks)
        assert (late.rank, late.period) == (slow, None)
        assert late.excess_s == pytest.approx(0.01, abs=0.004)
        assert late.share == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(("seconds", "is_named"), [(1.0, True), (0.3, False)])
def test_a_rank_that_became_much_slower_is_told_from_its_last_steps(seconds, is_named):
    slow = noisy(3, 0.02, lambda rank, step: seconds * (rank == 2 and step >= 40))
    found = job(slow, num=66)
    assert [(late.rank, late.period, late.num_steps) for late in found] == ([(2, None, 24)] if is_named else [])


def test_a_rank_that_was_much_slower_for_a_few_steps_is_not():
    assert job(noisy(3, 0.02, lambda rank, step: 3.0 * (rank == 2 and 40 <= step < 50)), num=66) == ()


def test_two_slow_ranks_of_eight_are_both_named():
    found = job(noisy(1, 0.01, lambda rank, _: {2: 0.02, 5: 0.01}.get(rank, 0.0)), ranks=8)
    assert [late.rank for late in found] == [2, 5]


@pytest.mark.parametrize("period", [2, 3, 7, 10])
def test_a_rank_that_is_slow_at_every_kth_step_is_named_with_its_period(period):
    (late,) = job(noisy(2, 0.02, lambda rank, step: 0.2 * (rank == 1 and step % period == 0)))
    assert (late.rank, late.period) == (1, period)
    assert late.last_event == (NUM - 1) // period * period
    assert late.excess_s == pytest.approx(0.2, abs=0.02)


def test_what_a_rank_costs_that_stands_for_many_steps_at_a_time_is_below_all():
    (late,) = job(noisy(2, 0.02, lambda rank, step: 2.5 * (rank == 1 and step % 5 == 0)))
    assert late.round_s == pytest.approx(2.5 + 5 * STEP_S, rel=0.1)
    assert late.share == pytest.approx(2.5 / 3.5, rel=0.1)


def test_a_period_by_the_clock_need_not_be_exact():
    slow = {8, 17, 27, 36, 46, 55}
    (late,) = job(noisy(2, 0.02, lambda rank, step: 0.2 * (rank == 1 and step in slow)))
    assert (late.rank, late.period) in {(1, 9), (1, 10)}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.1, 0.5])
def test_equal_ranks_are_never_named(ranks, spread):
    for seed in range(20):
        assert job(noisy(seed, spread), ranks=ranks) == (), f"seed {seed}"


ALIKE = {
    "all are slow": lambda rank, step: 0.1,
    "half of them are slow": lambda rank, step: 0.05 * (rank >= 2),
    "one slow step": lambda rank, step: 30.0 * (rank == 1 and step == 40),
    "a few slow steps": lambda rank, step: 1.0 * (rank == 1 and step in {9, 11, 40, 59}),
    "it wanders": lambda rank, step: 0.05 * (rank == step % 4),
    "a line of a log now and then": lambda rank, step: 0.004 * (rank == 0 and step % 10 == 0),
    "a percent": lambda rank, step: 0.002 * (rank == 3),
    "only at first": lambda rank, step: 0.05 * (rank == 2 and step < 30),
}


@pytest.mark.parametrize("what", ALIKE)
def test_what_is_no_straggler_is_not_named(what):
    for seed in range(10):
        assert job(noisy(seed, 0.02, ALIKE[what])) == ()


def test_a_wanderer_by_chance_is_not_named():
    for seed in range(30):
        rng = random.Random(seed)
        who = [rng.randrange(4) for _ in range(NUM)]
        assert job(noisy(seed, 0.02, lambda rank, step, who=who: 0.08 * (rank == who[step]))) == ()


def test_too_little_is_no_ground():
    slow = noisy(1, 0.0, lambda rank, _: 0.04 * (rank == 2))
    assert job(slow, num=23) == ()
    assert job(slow, ranks=1) == ()
    much = noisy(1, 0.0, lambda rank, _: 0.5 * (rank == 2))
    assert job(much, num=9) == ()
    assert [late.rank for late in job(much, num=10)] == [2], "a rank that takes three times as long is told at once"
    wanders = noisy(1, 0.0, lambda rank, step: 0.5 * (rank == step // 4 % 3))
    assert job(wanders, num=14) == (), "a load that wanders between ranks is nobody's"
    tiny = {rank: {step: 0.001 * (1 + rank) for step in range(100)} for rank in range(4)}
    assert late_ranks(tiny, dict.fromkeys(range(100), 0.004)) == (), "less than four seconds were seen"


@pytest.mark.parametrize(("seconds", "is_named"), [(0.08, False), (0.14, True)])
def test_a_periodic_lateness_is_named_from_a_fortieth_of_all_time_on(seconds, is_named):
    """Every 20th of 128 steps of 0.19 s: 0.08 s cost 2% of the time, 0.14 s 3.5%."""
    found = job(lambda rank, step: 0.18 + seconds * (rank == 1 and step % 20 == 0), num=128)
    assert [late.rank for late in found] == [1] * is_named


@pytest.mark.parametrize(("sigmas", "is_named"), [(5.5, False), (7.0, True)])
def test_a_lateness_is_named_from_six_standard_errors_of_its_median_on(sigmas, is_named):
    """Noise of two values, half of the steps each: its median absolute deviation is exact, and so is the limit."""
    spread, num = 0.02, 64
    error = (math.pi / 2) ** 0.5 * 1.4826 * spread / num**0.5
    noise = [spread, spread, -spread, -spread] * (num // 4)
    found = job(lambda rank, step: 0.18 + (rank == 1) * (sigmas * error + noise[step]), ranks=2, num=num)
    assert [late.rank for late in found] == [1] * is_named


def test_the_steps_that_were_judged_are_told():
    (late,) = job(lambda rank, step: 0.18 + 0.02 * (rank == 1), num=150)
    assert (late.first_step, late.last_step, late.num_steps) == (22, 149, 128)
