"""Real runs: killed, stopped, resumed, refused."""

import json
import os
import shutil
import signal

import pytest

from emberward.checkpoint import latest, verify
from ranks.runs import Ranks, curve, logs, make_run, metrics, start, write_text

RANKS, STEPS = 2, 12
RAMP = "batch.ramp_up={start: 4, increment: 2, samples: 24}"
OPTIONS = (
    RAMP,
    f"steps={STEPS}",
    "layout.dp=1",
    "layout.tp=1",
    "layout.pp=2",
    "save.interval=3",
    "evaluation.interval=5",
)


def pid_of(path, rank: int) -> int:
    return json.loads((path / "ranks" / f"rank{rank:05d}.json").read_text())["pid"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("data") / "text")


@pytest.fixture(scope="module")
def straight(tmp_path_factory, text):
    """A run that nobody interrupts."""
    path = make_run(tmp_path_factory.mktemp("runs") / "straight", RANKS, *OPTIONS, text=text)
    assert start(path, RANKS).wait(timeout=120) == 0, logs(path)
    return path


def test_a_run_learns_evaluates_saves_and_says_so(straight):
    lines = metrics(straight)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.3
    assert [line["global_batch_size"] for line in lines] == [4, 4, 4, 6, 6, *[8] * (STEPS - 5)]
    assert lines[-1]["consumed_samples"] == 12 + 12 + 8 * (STEPS - 5)
    summary = json.loads((straight / "summary.json").read_text())
    assert summary["outcome"] == "done"
    assert len(summary["ranks"]) == RANKS
    assert summary["sample"] is not None
    evals = [json.loads(line) for line in (straight / "evals.jsonl").read_text().splitlines()]
    assert [each["step"] for each in evals] == [5, 10, STEPS]
    assert verify(latest(straight / "checkpoints")) == ()
    assert (straight / "events" / "rank00001.jsonl").exists()


def test_a_killed_rank_ends_the_attempt_and_the_resumed_curve_is_bitwise_the_same(tmp_path, text, straight, wait_until):
    path = make_run(tmp_path / "killed", RANKS, *OPTIONS, text=text)
    first = start(path, RANKS)
    wait_until(lambda: len(metrics(path)) >= 7 or first.poll() is not None, "step 7")
    os.kill(pid_of(path, 1), signal.SIGKILL)
    assert first.wait(timeout=60) != 0
    assert not (path / "summary.json").exists()
    done = len(metrics(path))
    assert 7 <= done < STEPS
    saved = json.loads((latest(path / "checkpoints") / "manifest.json").read_text())["step"]
    assert saved in (3, 6, 9), "the save of step 6 may have been in flight"
    assert start(path, RANKS).wait(timeout=120) == 0, logs(path)
    assert curve(path) == curve(straight)


def test_sigterm_to_one_rank_saves_and_stops_all_and_the_rest_is_bitwise_the_same(tmp_path, text, straight, wait_until):
    path = make_run(tmp_path / "stopped", RANKS, *OPTIONS, text=text)
    first = start(path, RANKS)
    wait_until(lambda: len(metrics(path)) >= 4 or first.poll() is not None, "step 4")
    os.kill(pid_of(path, 1), signal.SIGTERM)
    assert first.wait(timeout=60) == 0, logs(path)
    summary = json.loads((path / "summary.json").read_text())
    assert summary["outcome"] == "stopped"
    assert latest(path / "checkpoints").name == f"step-{summary['step']:08d}"
    assert start(path, RANKS).wait(timeout=120) == 0, logs(path)
    assert curve(path) == curve(straight)


def test_another_config_on_one_rank_is_named_before_the_start(tmp_path, text):
    paths = [
        make_run(tmp_path / f"rank{rank}", RANKS, *OPTIONS, f"optim.lr={lr}", text=text)
        for rank, lr in enumerate(("1e-3", "2e-3"))
    ]
    ranks = Ranks(paths)
    assert ranks.wait(timeout=60) == 1
    assert [rank.poll() for rank in ranks.ranks] == [1, 1]
    for rank, path in enumerate(paths):
        failure = json.loads((path / "failures" / f"rank{rank:05d}.json").read_text())
        assert failure["finding"]["code"] == "L101"
        assert failure["finding"]["cause"] == "version_skew"
        assert "ranks differ in configuration" in failure["message"]
        assert metrics(path) == []


def test_changed_data_is_refused_on_resume(tmp_path, text, wait_until):
    path = make_run(tmp_path / "data", RANKS, *OPTIONS, "steps=4", text=text)
    assert start(path, RANKS).wait(timeout=120) == 0, logs(path)
    before = curve(path)
    other = make_run(tmp_path / "other", RANKS, *OPTIONS, "steps=8", text=write_text(tmp_path / "new" / "text", 9))
    for name in ("data.json", "config.resolved.yaml"):
        (path / name).write_text((other / name).read_text())
    assert start(path, RANKS).wait(timeout=120) != 0
    assert "D102 the data changed since the run began" in logs(path)
    assert curve(path) == before


def test_a_run_goes_on_in_another_layout_and_follows_the_same_curve(tmp_path, text, straight):
    """Saved as pp2, resumed as dp2 with ZeRO-3: digests are proved on load, losses agree to rounding."""
    path = make_run(tmp_path / "moved", RANKS, *OPTIONS, text=text)
    first = start(path, RANKS)
    assert first.wait(timeout=120) == 0, logs(path)
    for line in (path / "checkpoints").glob("step-*"):
        if line.name != "step-00000009":
            shutil.rmtree(line)
    other = make_run(
        tmp_path / "layout", RANKS, *OPTIONS, "layout.dp=2", "layout.pp=1", "layout.zero=3", "batch.micro_batch=1",
        text=text,
    )  # fmt: skip
    (path / "config.resolved.yaml").write_text((other / "config.resolved.yaml").read_text())
    assert start(path, RANKS).wait(timeout=120) == 0, logs(path)
    again, before = curve(path), curve(straight)
    assert again[:9] == before[:9]
    assert again[9:] != before[9:]
    for (step, loss, norm, samples), (_, old_loss, old_norm, old_samples) in zip(again[9:], before[9:], strict=True):
        assert samples == old_samples, step
        assert abs(loss - old_loss) < 1e-5 * old_loss
        assert abs(norm - old_norm) < 1e-4 * old_norm


def test_a_run_without_a_whole_save_is_not_started_anew_in_silence(tmp_path, text):
    path = make_run(tmp_path / "broken", RANKS, *OPTIONS, "steps=4", text=text)
    assert start(path, RANKS).wait(timeout=120) == 0, logs(path)
    for manifest in (path / "checkpoints").glob("step-*/manifest.json"):
        manifest.write_text("{}")
    before = curve(path)
    assert start(path, RANKS).wait(timeout=120) != 0
    assert "K101 no save of this run is whole" in logs(path)
    assert curve(path) == before
