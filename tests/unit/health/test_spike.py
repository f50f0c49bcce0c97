"""The spike rule on BLOOM-176B's own numbers, on bumps that are none, and across a resume."""

import itertools
import json
import random
from pathlib import Path

import pytest

from emberward.findings import Severity
from emberward.health import SpikeTurn, SpikeWatch, spike_finding

FACTS = json.loads((Path(__file__).parents[2] / "data" / "health" / "bloom_176b_spike.json").read_text())
SPIKE = [tuple(line) for line in FACTS["steps"]]
ORDINARY = [(2.198845, 0.242), (2.215699, 0.267), (2.235667, 0.205)]
"""The ordinary iterations next to the spike: the log shows none before 31214, these stand for them."""


def before(watch: SpikeWatch, *, until: int, num: int = 40) -> None:
    """Gives the watch `num` ordinary steps that end at `until`."""
    for step, (loss, norm) in zip(range(until - num + 1, until + 1), itertools.cycle(ORDINARY), strict=False):
        assert watch.see(step=step, loss=loss, grad_norm=norm) is None


def replay(steps):
    watch = SpikeWatch(ratio=5.0)
    before(watch, until=31213)
    seen = []
    for step, loss, norm in steps:
        turn = watch.see(step=step, loss=loss, grad_norm=norm)
        seen += [] if turn is None else [turn]
    return watch, seen


def test_bloom_s_spike_is_seen_at_31216_three_iterations_before_the_loss_s_peak():
    watch, seen = replay(SPIKE)
    assert [(turn.turn, turn.step) for turn in seen] == [(SpikeTurn.BEGAN, 31216)]
    assert max(SPIKE, key=lambda line: line[1])[0] == 31219
    assert watch.is_in_spike


def test_it_is_over_once_eight_steps_were_ordinary_and_the_peaks_are_told():
    rest = [(step, *ORDINARY[step % 3]) for step in range(31252, 31270)]
    watch, seen = replay([*SPIKE, *rest])
    over = seen[-1]
    assert (over.turn, over.first_step, over.norm_peak, over.loss_peak) == (SpikeTurn.OVER, 31216, 960.351, 5.098124)
    # The run's own people saved at 31259; the eighth ordinary step in a row here, 31250 and 31251 among them, is 31257.
    assert over.step == 31257
    assert not watch.is_in_spike


@pytest.mark.parametrize("factor", [3, 4.9, 6, 50, 1000])
def test_a_single_bump_of_the_gradient_norm_is_no_spike(factor):
    steps = [(31214 + i, 2.2, 0.242 * (factor if i % 10 == 5 else 1)) for i in range(200)]
    assert replay(steps)[1] == []


@pytest.mark.parametrize("iteration", [line[0] for line in FACTS["ordinary"]])
def test_the_log_s_other_iterations_are_ordinary(iteration):
    """Other phases of the run, each with its own level, under noise that comes near both limits: a third of the norms
    is raised, some steps running, up to just below five medians, and the loss reaches just below 1.5 of its median."""
    _, loss, norm = next(line for line in FACTS["ordinary"] if line[0] == iteration)
    watch = SpikeWatch(ratio=5.0)
    rng = random.Random(iteration)

    def see(step, *, of_loss, of_norm):
        return watch.see(step=step, loss=loss * of_loss, grad_norm=norm * of_norm)

    for step in range(300):
        is_raised = rng.random() < 0.33 and step > 20
        noise = rng.uniform(2.1, 4.4) if is_raised else rng.uniform(0.95, 1.05)
        assert see(step, of_loss=rng.uniform(0.97, 1.4), of_norm=noise) is None, step
    assert see(300, of_loss=1.0, of_norm=1.0) is None
    assert see(301, of_loss=1.0, of_norm=2.5) is None
    assert see(302, of_loss=1.0, of_norm=6.0) is not None, "the same noise hides no spike"


@pytest.mark.parametrize(
    ("before", "now", "is_spike"), [(2.1, 5.1, True), (1.9, 5.1, False), (2.1, 4.9, False)], ids=str
)
def test_both_limits_of_a_spike_hold(before, now, is_spike):
    watch = SpikeWatch(ratio=5.0)
    for step in range(20):
        assert watch.see(step=step, loss=2.0, grad_norm=0.3) is None
    assert watch.see(step=20, loss=2.0, grad_norm=0.3 * before) is None
    assert (watch.see(step=21, loss=2.0, grad_norm=0.3 * now) is not None) == is_spike


def test_twice_running_is_a_spike_and_once_is_not():
    once = [(31214, 2.2, 0.9), (31215, 2.2, 0.24), (31216, 2.2, 2.0), (31217, 2.2, 0.24)]
    twice = [(31214, 2.2, 0.9), (31215, 2.2, 2.0)]
    assert replay(once)[1] == []
    assert [turn.step for turn in replay(twice)[1]] == [31215]


def test_a_loss_that_jumps_is_a_spike_when_the_norm_is_clipped_out_of_sight():
    flat = [(31214, 4.0, 0.25), (31215, 4.1, 0.25)]
    assert [turn.step for turn in replay(flat)[1]] == [31215]
    assert replay([(31214, 4.0, 0.25), (31215, 2.2, 0.25), (31216, 4.0, 0.25)])[1] == []
    assert replay([(31214, 2.6, 0.25), (31215, 2.6, 0.25)])[1] == []


@pytest.mark.parametrize(("loss", "is_spike"), [(1.55, False), (1.65, True)])
def test_eight_deviations_of_the_loss_are_measured_by_its_own_noise(loss, is_spike):
    """Losses lie 0.05 off their median 1.0: a deviation of 0.074, so a limit of 1.593 beside that of 1.5."""
    watch = SpikeWatch(ratio=5.0)
    for step in range(20):
        assert watch.see(step=step, loss=(0.95, 1.05)[step % 2], grad_norm=0.3) is None
    assert watch.see(step=20, loss=loss, grad_norm=0.3) is None
    assert (watch.see(step=21, loss=loss, grad_norm=0.3) is not None) == is_spike


def test_a_noisy_small_loss_is_no_spike():
    rng = random.Random(7)
    watch = SpikeWatch(ratio=5.0)
    for step in range(500):
        assert watch.see(step=step, loss=rng.uniform(0.02, 0.2), grad_norm=rng.uniform(0.1, 0.5)) is None


def test_the_first_steps_are_not_judged():
    watch = SpikeWatch(ratio=5.0)
    for step in range(1, 16):
        assert watch.see(step=step, loss=8.0 - step / 4, grad_norm=[0.1, 30.0, 90.0][step % 3]) is None


def test_a_level_that_stays_is_told_and_measured_anew():
    steps = [(31214 + i, 3.5, 2.5) for i in range(260)]
    watch, seen = replay(steps)
    assert [turn.turn for turn in seen] == [SpikeTurn.BEGAN, SpikeTurn.STAYED]
    assert seen[1].step - seen[0].step == 200
    assert not watch.is_in_spike


def test_a_resumed_watch_decides_as_one_that_was_never_interrupted():
    rest = [(step, *ORDINARY[step % 3]) for step in range(31252, 31270)]
    steps = [*SPIKE, *rest]
    _, straight = replay(steps)
    for cut in range(len(steps)):
        first, seen = replay(steps[:cut])
        second = SpikeWatch(ratio=5.0)
        second.load_state(json.loads(json.dumps(first.state())))
        for step, loss, norm in steps[cut:]:
            turn = second.see(step=step, loss=loss, grad_norm=norm)
            seen += [] if turn is None else [turn]
        assert seen == straight


def test_what_a_person_reads():
    _, seen = replay([*SPIKE, *[(step, *ORDINARY[step % 3]) for step in range(31252, 31270)]])
    began, over = (spike_finding(turn, save_before=31200) for turn in seen)
    assert (began.code, began.severity) == ("R103", Severity.WARNING)
    assert began.message == ("a spike begins at step 31216: gradient norm 2.39, 9.9 times the median; loss 2.5952")
    assert began.evidence == (
        "ordinary steps: gradient norm 0.242, loss 2.2157 (medians)",
        "the save of step 31200 is kept",
    )
    assert began.next == "let it pass (most do), or emberward train RECIPE --rewind 31200 --skip-samples N"
    assert began.ruled_out == ("a single step above the limit: the step before it was raised as well",)
    assert (over.code, over.severity, over.ruled_out) == ("R104", Severity.NOTICE, ())
    assert over.message == (
        "the spike of step 31216 is over at step 31257: its peaks were gradient norm 960.4 and loss 5.0981"
    )
    stayed = spike_finding(replay([(31214 + i, 3.5, 2.5) for i in range(260)])[1][1], save_before=None)
    assert (stayed.code, stayed.severity) == ("R104", Severity.WARNING)
    assert stayed.message == (
        "the spike of step 31214 did not end in 200 steps: "
        "gradient norm 2.5 and loss 3.5000 are measured as the new level"
    )
    assert stayed.next == "lower optim.lr and start anew"
