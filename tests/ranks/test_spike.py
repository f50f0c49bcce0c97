"""A stretch of bad data in a real training: alarm, saves kept, rewind, skip, and the curve after it."""

import itertools
import json
import shutil

import pytest

from emberward.checkpoint import list_checkpoints, names_of, read_manifest
from emberward.report import RunFolder, read_lines
from ranks.spike_cases import spike_run

LAYOUT = {"dp": 2}
BEFORE = 40
"""The save from before the noise."""


def curve(folder):
    return [(line["step"], line["loss"], line["grad_norm"], line["lr"]) for line in read_lines(folder.metrics)]


def codes(folder):
    return [line["code"] for line in read_lines(folder.findings)]


@pytest.fixture(scope="module")
def spiked(pool, tmp_path_factory):
    """A run to its end, through the noise."""
    folder = RunFolder(path=tmp_path_factory.mktemp("spiked") / "run")
    assert pool.run(spike_run, 2, folder=str(folder.path), acts=[("train", {})], **LAYOUT) == [["done"], ["done"]]
    return folder


@pytest.fixture
def folder(spiked, tmp_path):
    """A copy of that run, to be changed."""
    shutil.copytree(spiked.path, tmp_path / "run")
    return RunFolder(path=tmp_path / "run")


def test_the_alarm_comes_at_the_first_bad_step_and_saves_from_before_and_after_are_kept(spiked):
    losses = {step: loss for step, loss, *_ in curve(spiked)}
    assert max(losses[step] for step in range(41, 45)) > 5 > 5 * max(losses[step] for step in range(37, 41))
    assert codes(spiked) == ["R103", "R104"]
    began, over = read_lines(spiked.findings)
    assert began["message"].startswith("a spike begins at step 41: loss ")
    assert "the save of step 40 is kept" in began["evidence"]
    assert over["severity"] == "notice"
    # save.keep is 1: without a name the older ones would be gone.
    kept = {save.step: names_of(save.path) for save in list_checkpoints(spiked.checkpoints)}
    after = int(over["message"].split(" is over at step ")[1].split(":")[0])
    assert kept == {BEFORE: ("before-spike-41",), after: ("after-spike-41",), 64: ()}


def test_rewound_and_skipped_the_run_learns_on_as_if_the_noise_had_not_been(pool, spiked, folder):
    acts = [("rewind", {"step": BEFORE, "skip_samples": 64}), ("train", {})]
    pool.run(spike_run, 2, folder=str(folder.path), acts=acts, **LAYOUT)
    before, after = curve(spiked), curve(folder)
    assert [line[0] for line in after] == list(range(1, 65))
    assert after[:BEFORE] == before[:BEFORE]
    losses = [loss for _, loss, *_ in after]
    assert all(later < earlier * 1.2 for earlier, later in itertools.pairwise(losses[30:]))
    assert losses[-1] < [loss for _, loss, *_ in before][-1]
    assert codes(folder) == ["R103", "R104"], "no second spike"
    newest = max(list_checkpoints(folder.checkpoints), key=lambda save: save.step)
    meta = read_manifest(newest.path).meta
    assert meta["health"]["detours"][0]["skip_samples"] == 64
    assert meta["consumed_samples"] == 64 * 16

    # Interrupted inside the detour and resumed: bit for bit the same, for the detour is part of the run.
    again = RunFolder(path=folder.path.parent / "again")
    shutil.copytree(spiked.path, again.path)
    acts = [("rewind", {"step": BEFORE, "skip_samples": 64}), ("train", {"stop_after": 50}), ("train", {})]
    pool.run(spike_run, 2, folder=str(again.path), acts=acts, **LAYOUT)
    assert curve(again) == after

    # Undone: the run is as it was.
    pool.run(spike_run, 2, folder=str(folder.path), acts=[("undo", {})], **LAYOUT)
    assert curve(folder) == before
    assert not json.loads(folder.detours.read_text())["detours"]


def test_rewound_with_a_lower_rate_the_noise_does_less_harm_and_a_stop_ends_before_it(pool, spiked, folder):
    details = {"step": BEFORE, "lr_scale": 0.1, "lr_steps": 8}
    acts = [
        ("rewind", details),
        ("train", {}),
        ("rewind", {"step": BEFORE}),
        ("train", {"on_spike": "stop"}),
    ]
    ends = pool.run(spike_run, 2, folder=str(folder.path), acts=acts, **LAYOUT)
    assert ends[0][0] == "done"
    assert all(end[1].startswith("R103 a spike begins at step 41: loss ") for end in ends)
    slow = {step: (loss, lr) for step, loss, _, lr in read_lines_of(folder.path / "rewound" / "002" / "metrics.jsonl")}
    fast = {step: (loss, lr) for step, loss, _, lr in curve(spiked)}
    assert [slow[step][1] / fast[step][1] for step in (40, 41, 48, 49)] == pytest.approx([1.0, 0.1, 0.1, 1.0])
    assert slow[45][0] < fast[45][0]
    assert max(save.step for save in list_checkpoints(folder.checkpoints)) == BEFORE, "a stop saves nothing"


def read_lines_of(path):
    return [(line["step"], line["loss"], line["grad_norm"], line["lr"]) for line in read_lines(path)]
