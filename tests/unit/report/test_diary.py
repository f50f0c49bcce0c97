"""What a run's diary says: how often to save by its own failures, hours lost by cause, means without a value."""

import json

import pytest

from emberward.recipe import load_recipe, resolve, write_resolved
from emberward.report import RunFolder, append_line, read_run, run_json, run_text


@pytest.fixture
def folder(tmp_path):
    """Two weeks of a run like BLOOM-176B's: a save each 100 steps of 105 s, 40 s each, and one failure a week."""
    run = RunFolder(path=tmp_path / "bloom" / "one")
    run.path.mkdir(parents=True)
    recipe = load_recipe("bloom_tiny", ["save.interval=100"])
    write_resolved(resolve(recipe, num_ranks=8, tokenizer_size=257), run.config)
    for step in range(1, 301):
        saved = {"save_blocked_s": 40.0, "save_s": 41.0} if step % 100 == 0 else {}
        append_line(run.metrics, {"step": step, "loss": 2.0, "step_s": 105.0, **saved})
    for attempt in (1, 2):
        append_line(run.attempts, {"event": "start", "attempt": attempt, "saved_step": None})
        append_line(
            run.attempts,
            {
                "event": "end", "attempt": attempt, "outcome": "failed", "cause": "killed", "last_step": 300,
                "hours": 7 * 24.0, "hours_lost": 7.3,
            },
        )  # fmt: skip
    return run


def test_the_advice_is_made_of_what_the_run_measured_itself(folder):
    text = run_text(read_run(folder))
    assert "  lost to     killed 14 h 36 min (2 x)\n" in text
    assert "  saves       best every 116 min (66 steps), which costs " in text
    assert "; now every 2.9 h, " in text
    assert "; for one failure in 7.0 d, 40 s a save, " in text
    document = run_json(read_run(folder))
    assert document["save_advice"]["best_steps"] == 66
    assert document["hours_lost_by_cause"] == {"killed": 14.6}
    assert json.dumps(document)


def test_one_failure_gives_no_rate_and_no_advice(folder):
    folder.attempts.write_text("".join(folder.attempts.read_text().splitlines(keepends=True)[:2]))
    report = read_run(folder)
    assert (report.num_attempts, report.lost_s, report.diary.advice) == (1, 7.3 * 3600, None)


def test_a_run_that_never_failed_is_not_advised(folder):
    folder.attempts.write_text("")
    report = read_run(folder)
    assert report.diary.advice is None
    assert "saving" not in run_text(report)


def test_a_mean_that_is_not_finite_is_said_and_is_valid_json(folder):
    append_line(folder.evals, {"step": 300, "sets": {"held out": {"loss": None, "tokens": 0}}})
    assert "  held out    held out: not finite over 0 tokens" in run_text(read_run(folder))
    assert "NaN" not in folder.evals.read_text()


def test_a_launcher_that_died_is_a_failure_when_work_was_lost_with_it(folder):
    text = folder.attempts.read_text()
    folder.attempts.write_text(
        text.replace('"outcome": "failed", "cause": "killed"', '"outcome": null, "cause": "unknown"')
    )
    report = read_run(folder)
    assert report.diary.advice is not None
    assert "  lost to     unknown 14 h 36 min (2 x)\n" in run_text(report)
    folder.attempts.write_text(folder.attempts.read_text().replace('"hours_lost": 7.3', '"hours_lost": 0.0'))
    assert read_run(folder).diary.advice is None
