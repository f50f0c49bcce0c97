"""Which rank became slower when steps did, by numbers alone: a campaign of simulated jobs, and all that looks alike."""

import numpy as np
import pytest

from emberward.health import RankSlowdownWatch

CHANGE = 150
RANKS = 8


def rows(seed, num, noise, extra=lambda rank, step: 0.0):
    """Steps of RANKS ranks of about a second; a step lasts as long as its latest rank.

    Heavy tails (Student's t of 3 degrees of freedom) that all ranks share and of each rank's own; one in 500 of a
    rank's steps up to seconds longer; a log each ten steps; a save each hundred that takes up to three steps' time and
    makes the next one longer too.
    """
    rng = np.random.default_rng(seed)
    for step in range(num):
        own = 0.85 * (1 + 0.005 * rng.standard_t(3) + noise * rng.standard_t(3, size=RANKS))
        own = np.maximum(own, 0.3) + (rng.random(RANKS) < 0.002) * rng.exponential(0.5, size=RANKS)
        own[0] += 0.004 * (step % 10 == 0)
        own += [extra(rank, step) for rank in range(RANKS)]
        saved = {99: rng.uniform(0.5, 3), 0: 0.2 * (step > 0)}.get(step % 100, 0.0)
        yield step, own.max() + 0.05 * (1 + 0.1 * abs(rng.standard_t(3))) + saved, dict(enumerate(own.tolist()))


def turns(steps):
    watch = RankSlowdownWatch()
    return [turn for step, step_s, own in steps for turn in watch.see(step=step, step_s=float(step_s), own_s=(own,))]


def slower(who, share=0.05):
    return lambda rank, step: 0.85 * share * (rank in who and step >= CHANGE)


@pytest.mark.parametrize("noise", [0.005, 0.01, 0.02])
def test_a_rank_of_eight_that_becomes_a_twentieth_slower_is_named_within_fifty_steps(noise):
    for seed in range(12):
        found = turns(rows(seed, CHANGE + 50, noise, slower({seed % RANKS})))
        assert [turn.grown.culprits for turn in found] == [(seed % RANKS,)], f"seed {seed}"
        assert abs(found[0].first_step - CHANGE) <= 16, f"seed {seed}"
        (member,) = found[0].grown.members
        assert member.grown_s == pytest.approx(0.0425, abs=0.025), f"seed {seed}"


def test_ten_thousand_steps_with_real_noise_and_saves_have_no_change():
    assert turns(rows(7, 10_000, 0.01)) == []


def test_a_change_that_all_ranks_share_is_nobody_s():
    for seed in range(6):
        found = turns(rows(seed, CHANGE + 50, 0.01, slower(range(RANKS), 0.10)))
        assert [(turn.grown.culprits, len(turn.grown.members)) for turn in found] == [((), RANKS)], f"seed {seed}"


def test_ranks_of_one_host_that_become_slower_together_are_named_together():
    for seed in range(6):
        found = turns(rows(seed, CHANGE + 50, 0.01, slower(range(4, 8), 0.10)))
        assert [turn.grown.culprits for turn in found] == [(4, 5, 6, 7)], f"seed {seed}"


def test_steps_that_became_longer_in_calls_alone_are_nobody_s():
    """A rank may finish late, for it waits: its own part is what it was."""
    steps = [(step, step_s + 0.08 * (step >= CHANGE), own) for step, step_s, own in rows(3, CHANGE + 50, 0.01)]
    (turn,) = turns(steps)
    assert (turn.grown.members, turn.grown.num_known) == ((), RANKS)


def test_a_rank_that_nobody_waits_for_is_not_named():
    """Rank 2 was early by a quarter of a second, and is so by less now: steps last as long as before."""
    early = rows(3, CHANGE + 60, 0.005, lambda rank, step: -0.25 * (rank == 2) + 0.2 * (rank == 2 and step >= CHANGE))
    assert turns(early) == []


def test_a_change_is_over_when_the_rank_is_as_before():
    for_a_while = rows(5, CHANGE + 120, 0.01, lambda rank, step: 0.0425 * (rank == 3 and CHANGE <= step < CHANGE + 60))
    began, over = turns(for_a_while)
    assert (began.grown.culprits, began.is_over, over.grown.culprits, over.is_over) == ((3,), False, (3,), True)
    assert CHANGE + 60 <= over.step <= CHANGE + 80


def test_a_save_and_the_slow_step_after_it_are_no_change():
    steps = [(step, {50: 2.5, 51: 1.2}.get(step, 1.0), {0: 1.0, 1: 1.0}) for step in range(120)]
    assert turns(steps) == []


def test_two_steps_that_are_long_for_other_ranks_are_chance_and_ten_are_a_change():
    def steps(last):
        for step in range(80):
            own = {rank: 1.0 + 0.5 * (40 <= step < last and rank == step % 4) for rank in range(4)}
            yield step, max(own.values()), own

    assert turns(steps(42)) == []
    began, _ = turns(steps(60))
    assert (began.first_step, began.step, began.grown.culprits) == (40, 50, ())


def test_where_bumps_are_frequent_two_running_are_no_change_and_a_lasting_one_is():
    bumps = {step: 1.5 for step in range(20, 200, 9)} | {190: 1.5, 191: 1.5, 192: 1.5}
    steps = [(step, bumps.get(step, 1.0), {}) for step in range(200)]
    assert turns(steps) == []
    (turn,) = turns([*steps, *((step, 1.5, {}) for step in range(200, 220))])
    assert turn.first_step == 200
    assert turn.step <= 208


def test_a_change_that_no_single_step_shows_is_seen_by_medians():
    rng = np.random.default_rng(2)
    steps = [(step, (1.0 + 0.06 * (step >= 100)) * (1 + 0.02 * rng.standard_normal()), {}) for step in range(150)]
    (turn,) = turns(steps)
    assert abs(turn.first_step - 100) <= 3
    assert turn.share == pytest.approx(0.06, abs=0.02)
    assert turns(steps[:100]) == []
