"""Advice on the interval between saves, judged on BLOOM-176B's figures; and the ledger of lost hours."""

import json
from pathlib import Path

import pytest

from emberward.health import JobCosts, LossRow, advise_interval, hours_lost_by_cause, lost_share, optimum_interval_s

FACTS = json.loads((Path(__file__).parents[2] / "data" / "health" / "bloom_176b_spike.json").read_text())["interval"]
WEEK_S = 7 * 86400.0


def bloom(**changes):
    costs = {
        "save_s": FACTS["save_s"],
        "step_s": FACTS["step_s"],
        "run_s": WEEK_S,
        "num_failures": FACTS["failures_per_week"],
        "restart_s": 0.0,
        "interval_steps": FACTS["interval_steps"],
    }
    return JobCosts(**{**costs, **changes})


def test_bloom_would_save_every_116_minutes_and_lose_a_tenth_of_a_percent_less():
    assert advise_interval(bloom()).text() == (
        "best every 116 min (66 steps), which costs 1.15% of the time; now every 2.9 h, which costs 1.25%; "
        "for one failure in 7.0 d, 40 s a save, 0 s to restart"
    )


def test_detection_and_restart_count_in_the_loss_and_not_in_the_interval():
    slow = advise_interval(bloom(restart_s=3 * 3600))
    fast = advise_interval(bloom())
    assert slow.best_steps == fast.best_steps
    assert slow.best_share - fast.best_share == pytest.approx(3 * 3600 / WEEK_S)


def test_the_interval_is_where_the_loss_is_least():
    for save_s, mtbf_s in [(40, WEEK_S), (10, 3.1 * 3600), (120, 3600)]:
        best = optimum_interval_s(save_s=save_s, mtbf_s=mtbf_s)
        at = [lost_share(interval_s=best * factor, save_s=save_s, mtbf_s=mtbf_s) for factor in (0.7, 1.0, 1.4)]
        assert at[1] < at[0] and at[1] < at[2]
    # Llama 3: 16,384 GPUs, a failure each 3.1 h; with saves of 10 s about 8 minutes.
    assert optimum_interval_s(save_s=10, mtbf_s=3.1 * 3600) / 60 == pytest.approx(7.8, abs=0.1)


def test_saves_that_cost_more_than_the_time_between_failures_have_no_better_interval():
    assert optimum_interval_s(save_s=100, mtbf_s=50) == 50


def test_a_job_that_never_failed_is_advised_by_the_time_it_ran():
    advice = advise_interval(bloom(num_failures=0, run_s=86400.0, interval_steps=None))
    assert advice.text() == (
        "best every 44 min (25 steps), which costs 3.04% of the time; now only at the end; "
        "for one failure in 24.0 h (none was seen in that time), 40 s a save, 0 s to restart"
    )


@pytest.mark.parametrize("missing", ["save_s", "step_s", "run_s"])
def test_without_a_measure_there_is_no_advice(missing):
    assert advise_interval(bloom(**{missing: 0.0})) is None


def test_the_ledger_adds_hours_by_cause_and_leaves_out_what_lost_nothing():
    lines = [
        {"event": "start", "attempt": 1},
        {"event": "end", "attempt": 1, "outcome": "failed", "cause": "killed", "hours_lost": 7.3},
        {"event": "end", "attempt": 2, "outcome": "failed", "cause": "disk_full", "hours_lost": 1.0},
        {"event": "end", "attempt": 3, "outcome": "killed", "hours_lost": 2.0},
        {"event": "end", "attempt": 4, "outcome": "failed", "cause": "killed", "hours_lost": 0.7},
        {"event": "rewind", "hours_lost": 1.5},
        {"event": "end", "attempt": 5, "outcome": "done", "hours_lost": 0.0},
    ]
    assert hours_lost_by_cause(lines) == (
        LossRow(cause="killed", num_times=3, hours=10.0),
        LossRow(cause="rewind", num_times=1, hours=1.5),
        LossRow(cause="disk_full", num_times=1, hours=1.0),
    )
    assert hours_lost_by_cause([]) == ()


def test_a_rewind_that_was_undone_costs_what_had_been_done_after_it():
    lines = [
        {"event": "rewind", "number": 1, "hours_lost": 5.0},
        {"event": "undo_rewind", "number": 1, "hours_lost": 0.5},
    ]
    assert hours_lost_by_cause(lines) == (LossRow(cause="undo_rewind", num_times=1, hours=0.5),)


def test_a_restart_costs_its_share_of_the_time_between_failures_and_nothing_by_default():
    assert lost_share(interval_s=100.0, save_s=2.0, mtbf_s=1000.0) == pytest.approx(0.02 + 0.05)
    assert lost_share(interval_s=100.0, save_s=2.0, mtbf_s=1000.0, restart_s=30.0) == pytest.approx(0.02 + 0.05 + 0.03)
