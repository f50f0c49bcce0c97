"""A rewind and its undoing on a run's folder: saves move, nothing is lost, the diary knows."""

import json

import pytest

from emberward.checkpoint import alone, latest, list_checkpoints, save, verify
from emberward.findings import ConfigError
from emberward.health import Detour
from emberward.report import RunFolder, append_line, read_lines, read_run, run_text
from emberward.runs import Act, Rewind, plan_rewind, read_detours, rewind, undo_rewind

ACT = Act(who="ada@host", time="2026-11-21T20:00:00+00:00", why="bad data")


def save_at(folder: RunFolder, step: int) -> None:
    meta = {"consumed_samples": step * 8}
    save(folder.checkpoints, step=step, shards=[], meta=meta, rank=0, world_size=1, agree=alone)


def train_to(folder: RunFolder, first: int, last: int, *, mark: str = "") -> None:
    """Metrics of steps after `first`, up to `last`, and a save each four."""
    for step in range(first + 1, last + 1):
        append_line(folder.metrics, {"step": step, "step_s": 36.0, "loss": 2.0, "mark": mark})
        if step % 4 == 0:
            save_at(folder, step)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(path=tmp_path / "tiny" / "one")
    run.path.mkdir(parents=True)
    train_to(run, 0, 14)
    append_line(run.evals, {"step": 5, "sets": {}})
    append_line(run.evals, {"step": 10, "sets": {}})
    run.summary.write_text(json.dumps({"outcome": "done", "step": 14}))
    return run


def steps(folder: RunFolder) -> list[int]:
    return [save.step for save in list_checkpoints(folder.checkpoints)]


def metrics(folder: RunFolder) -> list[tuple[int, str]]:
    return [(line["step"], line["mark"]) for line in read_lines(folder.metrics)]


def test_a_rewind_sets_later_saves_aside_and_the_next_start_goes_on_from_the_save(folder):
    detour = rewind(folder, Rewind(step=8, skip_samples=32, lr_scale=0.5, lr_steps=4), ACT)
    assert detour == Detour(
        number=1, step=8, consumed_samples=64, from_step=14, skip_samples=32, lr_scale=0.5, lr_steps=4
    )
    assert read_detours(folder) == (detour,)
    assert steps(folder) == [4, 8]
    assert latest(folder.checkpoints).name == "step-00000008"
    assert [step for step, _ in metrics(folder)] == list(range(1, 9))
    assert [line["step"] for line in read_lines(folder.evals)] == [5]
    assert not folder.summary.exists()
    (line,) = read_lines(folder.attempts)
    assert (line["event"], line["who"], line["why"], line["step"], line["from_step"]) == (
        "rewind", "ada@host", "bad data", 8, 14,
    )  # fmt: skip
    assert line["hours_lost"] == pytest.approx(6 * 36 / 3600)
    temporary = folder.path / line["set_aside"]
    assert [path.name for path in (temporary / "checkpoints").iterdir()] == ["step-00000012"]
    assert verify(temporary / "checkpoints" / "step-00000012") == ()
    assert len((temporary / "metrics.jsonl").read_text().splitlines()) == 14


def test_undone_the_run_is_as_it_was_and_what_came_after_is_kept(folder):
    before = metrics(folder)
    rewind(folder, Rewind(step=8, skip_samples=32), ACT)
    train_to(folder, 8, 12, mark="other")
    assert steps(folder) == [4, 8, 12]
    undo_rewind(folder, ACT)
    assert read_detours(folder) == ()
    assert steps(folder) == [4, 8, 12]
    assert metrics(folder) == before
    assert latest(folder.checkpoints).name == "step-00000012"
    undone = folder.path / "rewound" / "001-undone"
    assert [path.name for path in (undone / "checkpoints").iterdir()] == ["step-00000012"]
    assert "other" in (undone / "metrics.jsonl").read_text()
    assert [line["event"] for line in read_lines(folder.attempts)] == ["rewind", "undo_rewind"]
    with pytest.raises(ConfigError, match="R106 there is no rewind to undo"):
        undo_rewind(folder, ACT)


def test_a_second_rewind_to_an_earlier_step_takes_the_first_with_it_and_undoing_brings_it_back(folder):
    first = rewind(folder, Rewind(step=8, skip_samples=32), ACT)
    train_to(folder, 8, 12)
    second = rewind(folder, Rewind(step=4), ACT)
    assert (second.number, read_detours(folder)) == (2, (second,))
    undo_rewind(folder, ACT)
    assert read_detours(folder) == (first,)
    assert steps(folder) == [4, 8, 12]


def test_a_third_rewind_after_an_undoing_has_a_number_and_a_folder_of_its_own(folder):
    rewind(folder, Rewind(step=8), ACT)
    undo_rewind(folder, ACT)
    assert rewind(folder, Rewind(step=8), ACT).number == 2
    assert sorted(path.name for path in folder.set_aside.iterdir()) == ["001", "001-undone", "002"]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            Rewind(step=9),
            "R106 the run has no whole save of step 9\n  where     CHECKPOINTS\n"
            "  expected  one of 4, 8, 12\n  found     9\n  next      --rewind 8",
        ),
        (
            Rewind(step=8, lr_scale=0.5),
            "R106 the rewind contradicts itself\n  where     --lr-scale, --for-steps, --skip-samples\n"
            "  expected  --lr-scale above 0 together with --for-steps, and --skip-samples of at least 0\n"
            "  found     --lr-scale 0.5 --for-steps 0 --skip-samples 0\n"
            "  next      --rewind 8 --lr-scale 0.5 --for-steps 100",
        ),
    ],
)
def test_an_impossible_rewind_is_refused_and_changes_nothing(folder, wanted, text):
    with pytest.raises(ConfigError) as caught:
        rewind(folder, wanted, ACT)
    assert str(caught.value) == text.replace("CHECKPOINTS", str(folder.checkpoints))
    assert steps(folder) == [4, 8, 12]
    assert not folder.attempts.exists()


def test_a_plan_reads_only(folder):
    before = sorted(path for path in folder.path.rglob("*"))
    assert plan_rewind(folder, Rewind(step=4, skip_samples=8)).from_step == 14
    assert sorted(path for path in folder.path.rglob("*")) == before


def test_a_damaged_list_of_rewinds_is_refused(folder):
    folder.detours.write_text('{"detours": [{"step": 1}]}')
    with pytest.raises(ConfigError, match="R106 the list of rewinds cannot be read"):
        read_detours(folder)


def test_the_report_shows_the_rewind_and_what_it_cost(folder):
    rewind(folder, Rewind(step=8, skip_samples=32), ACT)
    report = read_run(folder)
    text = run_text(report)
    assert "  rewind      rewound from step 14 to 8, skips the 32 samples after the first 64 trained" in text
    assert "  lost to     rewind 3 min 36 s (1 x)" in text
