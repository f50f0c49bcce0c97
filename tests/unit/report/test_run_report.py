"""A run's folder as a value and as text; whatever is missing, nothing is invented."""

import dataclasses
import itertools
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import (
    NextCommand,
    Progress,
    ProgressReader,
    RunFolder,
    append_line,
    count_text,
    duration_text,
    eta_s,
    layout_lines,
    printable,
    progress_text,
    read_run,
    run_json,
    run_text,
    step_text,
    table,
    write_json,
)

DEATH = Finding(
    code="L102",
    severity=Severity.ERROR,
    kind=Kind.CRASH,
    cause=Cause.KILLED,
    certainty=Certainty.OBSERVED,
    culprit_ranks=(1,),
    message="rank 1 died first: killed by SIGKILL",
    next="then resume from the last save",
)
RANKS = [
    {"rank": rank, "pid": 100 + rank, "host": "n1", "coordinates": {"pp": rank // 2, "dp": 0, "tp": rank % 2}}
    for rank in range(4)
]


def fill(folder: RunFolder) -> None:
    """Two attempts: one that died after step 3, one that resumed at step 2 and ended at step 4."""
    for step, loss in [(1, 5.5), (2, 5.0), (3, 9.9), (3, 4.5), (4, 4.0)]:
        append_line(folder.metrics, {"step": step, "loss": loss, "tokens_per_s": 1000.0 * step, "step_s": 0.5})
    for step, loss in [(2, 5.1), (4, 4.1)]:
        append_line(folder.evals, {"step": step, "sets": {"held out": {"loss": loss, "tokens": 2048}}, "seconds": 1.0})
    for attempt, outcome in [(1, "failed"), (2, "done")]:
        append_line(folder.attempts, {"event": "start", "attempt": attempt})
        end = {"event": "end", "attempt": attempt, "outcome": outcome, "hours": 0.5}
        append_line(folder.attempts, {**end, "hours_lost": 0.25 if outcome == "failed" else 0.0})
    append_line(folder.findings, DEATH.to_json())
    write_json(folder.progress, {"phase": "done", "step": 4, "steps": 4, "time_unix": 1.0})
    write_json(
        folder.summary,
        {
            "outcome": "done", "step": 4, "steps": 4, "evals": {"held out": {"loss": 4.1, "tokens": 2048}},
            "checkpoint": "/r/checkpoints/step-00000004", "sample_prompt": "def ",
            "sample_source": "from held out, held out of training", "sample": "f(x):\n\x1b[2J",
            "ranks": RANKS,
        },
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "tiny" / "7"
    path.mkdir(parents=True)
    return RunFolder(path=path)


def attempts_of(place, *outcomes) -> RunFolder:
    """A run with one attempt for each outcome."""
    folder = RunFolder(path=place / "runs" / "job" / "20261122-101500-1a2b")
    folder.path.mkdir(parents=True)
    for attempt, outcome in enumerate(outcomes, start=1):
        append_line(folder.attempts, {"event": "start", "attempt": attempt})
        append_line(folder.attempts, {"event": "end", "attempt": attempt, "outcome": outcome})
    return folder


def finding(*, code="L102", kind=Kind.CRASH, severity=Severity.ERROR, message) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        kind=kind,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=message,
        culprit_ranks=(int(message[5]),),
    )


def test_a_run_over_images_counts_images(folder):
    fill(folder)
    summary = json.loads(folder.summary.read_text())
    write_json(folder.summary, {**summary, "unit": "images"})
    text = run_text(read_run(folder), next_commands=NEXT)
    assert "nats an image, perplexity" in text and "over 2,048 images" in text and " images/s" in text
    assert "token" not in text.split("held out")[0]


def test_the_summary_of_a_run_word_for_word(folder):
    fill(folder)
    assert run_text(read_run(folder), next_commands=NEXT) == "\n".join(
        [
            "tiny 7: done at step 4 of 4",
            "",
            "  rank  pp  dp  tp  host",
            "     0   0   0   0  n1",
            "     1   0   0   1  n1",
            "     2   1   0   0  n1",
            "     3   1   0   1  n1",
            "",
            "  loss        5.5000 -> 4.0000 nats a token, perplexity 245 -> 54.6",
            "              █▆▃▁  steps 1 to 4",
            "  held out    held out: 4.1000 (perplexity 60.3) over 2,048 tokens",
            "  speed       2,500 tokens/s, 0.500 s a step (medians)",
            "  time        1 h in 2 attempts",
            "  lost to     failed 15 min (1 x)",
            "  saved       /r/checkpoints/step-00000004",
            "  error       L102 rank 1 died first: killed by SIGKILL",
            "  prompt      from held out, held out of training",
            "    | def",
            "  sample      what the model writes after it",
            "    | f(x):",
            "    | \\x1b[2J",
            f"  folder      {folder.path}",
            "  next        this summary again:",
            "    emberward report x",
            "              live:",
            "    emberward watch x",
        ]
    )


def test_a_program_s_own_loss_has_no_unit_and_no_steps(folder):
    fill(folder)
    text = run_text(dataclasses.replace(read_run(folder), step=None, first_step=None))
    assert "  loss        5.5000 -> 4.0000\n              █▆▃▁\n" in text


def test_a_step_that_was_done_twice_counts_as_it_was_done_last(folder):
    fill(folder)
    report = read_run(folder)
    assert (report.first_step, report.step, report.loss_first, report.loss_last) == (1, 4, 5.5, 4.0)
    assert report.tokens_per_s == 2500.0


def test_an_empty_folder_gives_a_report_without_facts(folder):
    report = read_run(folder)
    assert (report.outcome, report.step, report.loss_last, report.evals, report.findings) == (None, None, None, {}, ())
    assert run_text(report) == (
        f"tiny 7: no end recorded: it runs, or its launcher died\n\n  folder      {folder.path}"
    )


NEXT = (
    NextCommand(command="emberward report x", why="this summary again"),
    NextCommand(command="emberward watch x", why="live"),
)


FILES = ("metrics", "evals", "attempts", "findings", "progress", "summary")


@pytest.mark.parametrize("gone", list(itertools.combinations(FILES, 1)) + list(itertools.combinations(FILES, 5)))
def test_whatever_files_are_missing_the_rest_is_told(folder, gone):
    fill(folder)
    for name in gone:
        getattr(folder, name).unlink()
    report = read_run(folder)
    left = set(FILES) - set(gone)
    assert (report.loss_last is not None) == ("metrics" in left)
    assert (report.num_attempts == 2) == ("attempts" in left)
    assert bool(report.findings) == ("findings" in left)
    assert (report.sample is not None) == ("summary" in left)
    assert bool(report.evals) == bool(left & {"summary", "evals"})
    assert (report.steps == 4) == bool(left & {"summary", "progress"})
    assert (report.outcome == "done") == bool(left & {"summary", "attempts"})
    assert json.loads(json.dumps(run_json(report)))["id"] == "7"
    assert "nan" not in run_text(report)


@pytest.mark.parametrize("name", FILES)
def test_every_file_may_be_cut_anywhere(folder, name):
    fill(folder)
    path: Path = getattr(folder, name)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert read_run(folder).folder is folder


def test_a_run_that_goes_on_after_a_death_has_no_outcome_yet(folder):
    append_line(folder.attempts, {"event": "start", "attempt": 1})
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "failed", "hours": 1})
    append_line(folder.attempts, {"event": "start", "attempt": 2})
    assert read_run(folder).outcome is None


def test_a_finding_of_a_later_version_is_left_out_and_the_rest_kept(folder):
    append_line(folder.findings, {"code": "Z999"})
    append_line(folder.findings, {**DEATH.to_json(), "kind": "a word of tomorrow"})
    append_line(folder.findings, DEATH.to_json())
    assert read_run(folder).findings == (DEATH,)


def test_what_was_a_notice_before_it_was_an_error_is_said_once(folder):
    suspected = replace(DEATH, severity=Severity.NOTICE, message="seen in one snapshot")
    others = [replace(DEATH, culprit_ranks=(9,)), *(replace(DEATH, culprit_ranks=(), message=name) for name in "ab")]
    for finding in (suspected, others[0], DEATH, suspected, *others[1:]):
        append_line(folder.findings, finding.to_json())
    assert read_run(folder).findings == (DEATH, *others)


def test_what_was_said_of_an_earlier_attempt_names_it_and_what_came_again_does_not(tmp_path):
    folder = attempts_of(tmp_path, "failed", "failed")
    first, again = finding(message="rank 1 is stopped"), finding(message="rank 0 died first")
    for number, said in ((1, first), (1, again), (2, again)):
        append_line(folder.findings, {**said.to_json(), "attempt": number})
    told = [each.message for each in read_run(folder).findings]
    assert told == ["in attempt 1, rank 1 is stopped", "rank 0 died first"]


@pytest.mark.parametrize(
    ("outcome", "has_error", "stands", "is_past"),
    [("done", False, False, True), ("failed", True, False, False), ("stopped", False, True, False)],
)
def test_a_wait_of_a_run_that_ended_stands_only_where_nothing_tells_more(tmp_path, outcome, has_error, stands, is_past):
    folder = attempts_of(tmp_path, outcome)
    wait = finding(code="H101", kind=Kind.HANG, severity=Severity.NOTICE, message="rank 1 has not arrived")
    error = finding(message="rank 0 died first")
    for said in (wait, *([error] if has_error else [])):
        append_line(folder.findings, {**said.to_json(), "attempt": 1})
    report = read_run(folder)
    assert (wait in report.findings, wait in report.recovered) == (stands, is_past)


def test_ranks_come_from_their_files_when_no_summary_was_written(folder):
    folder.ranks.mkdir()
    for rank in RANKS:
        write_json(folder.rank_file(rank["rank"]), rank)
    folder.rank_file(9).write_text('{"rank": 9, "pi')
    assert [rank["rank"] for rank in read_run(folder).ranks] == [0, 1, 2, 3]


def test_a_layout_table_is_bounded_and_sorted():
    ranks = [{"rank": rank, "host": f"n{rank % 3}", "coordinates": {"pp": 0, "dp": rank}} for rank in range(40)]
    lines = layout_lines(ranks[::-1])
    assert lines[:3] == ["rank  pp  dp  host", "   0   0   0  n0", "   1   0   1  n1"]
    assert lines[32:] == ["  31   0  31  n1", "and 8 more ranks, in 40 files of ranks/"]


def test_a_layout_table_before_the_mesh_is_known():
    assert layout_lines([{"rank": 0, "pid": 1, "host": "n1", "coordinates": None}]) == ["rank  host", "   0  n1"]
    assert layout_lines([]) == []


def test_a_table_aligns_its_columns():
    assert table(["a", "name"], [["1", "x"], ["100", "long"]]) == ["  a  name", "  1  x", "100  long"]


def test_control_characters_are_shown_and_letters_stay():
    assert printable("a\tb\nö \x1b[0m\x07\x9b") == "a\tb\nö \\x1b[0m\\x07\\x9b"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min"), (42, "42 s"), (187, "3 min 7 s"), (7387, "2 h 3 min"), (446400, "5 d 4 h")],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(950, "950"), (999.6, "1.0k"), (12_300, "12.3k"), (999_960, "1.0M"), (2.04e9, "2.0G")]
)
def test_counts(value, text):
    assert count_text(value) == text


def test_the_time_left_is_that_of_the_median_step():
    assert eta_s(step=10, steps=110, recent_step_s=[1.0, 1.0, 60.0]) == 100.0
    assert eta_s(step=0, steps=110, recent_step_s=[]) is None
    assert eta_s(step=120, steps=110, recent_step_s=[1.0]) == 0.0


def test_a_progress_line():
    assert progress_text(Progress()) == "starting"
    whole = Progress(
        phase="eval", detail="held out (1/3)", step=20, steps=60, loss=2.0211, tokens_per_s=3300.0, step_s=0.07,
        eta_s=187.0,
    )  # fmt: skip
    assert progress_text(whole) == (
        "step 20/60  loss 2.0211  3.3k tok/s  0.07 s/step  ETA 3 min 7 s  eval: held out (1/3)"
    )
    assert progress_text(whole, width=59) == "step 20/60  ETA 3 min 7 s  eval: held out (1/3)"
    assert progress_text(whole, width=60) == "step 20/60  loss 2.0211  ETA 3 min 7 s  eval: held out (1/3)"
    assert progress_text(whole, width=40) == "step 20/60  ETA 3 min 7 s"
    assert progress_text(whole, width=5) == "step 20/60"


def test_a_step_line_fits_80_columns():
    metrics = {"step": 99_999, "loss": 12.34567, "grad_norm": 123456.7, "tokens_per_s": 123456.0}
    line = step_text(metrics, steps=120_000, left_s=86399.0 * 3)
    assert line == "step  99999/120000  loss 12.3457  grad norm 1.23e+05  123.5k tok/s  ETA 3 d"
    assert step_text({"step": 1}, steps=9, left_s=None) == "step 1/9  loss not finite, skipped"


def test_the_summary_has_the_time_that_watch_shows(folder):
    """A run that goes on: the attempts that ended, and the one that runs, to its supervisor's last heartbeat."""
    append_line(folder.attempts, {"event": "start", "attempt": 1, "start": "2026-01-01T00:00:00+00:00"})
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "failed", "hours": 1.0})
    append_line(folder.attempts, {"event": "start", "attempt": 2, "start": "2026-01-01T02:00:00+00:00"})
    beat_unix = datetime.fromisoformat("2026-01-01T02:00:30+00:00").timestamp()
    write_json(folder.supervisor, {"time_unix": beat_unix})
    progress, _ = ProgressReader(folder).poll(now_unix=beat_unix)
    assert (read_run(folder).seconds, progress.running_s) == (3630.0, 3630.0)
    append_line(folder.attempts, {"event": "end", "attempt": 2, "outcome": "done", "hours": 0.5})
    assert read_run(folder).seconds == ProgressReader(folder).poll(now_unix=beat_unix + 999)[0].running_s == 5400.0


def test_progress_follows_the_folder_and_gives_each_step_once(folder):
    reader = ProgressReader(folder)
    assert reader.poll(now_unix=5.0) == (Progress(), [])
    write_json(folder.progress, {"phase": "train", "detail": None, "step": 2, "steps": 12, "time_unix": 4.0})
    for step in (1, 2):
        append_line(folder.metrics, {"step": step, "loss": 6.0 - step, "step_s": 0.5 * step, "tokens_per_s": 10.0})
    progress, steps = reader.poll(now_unix=5.0)
    assert [line["step"] for line in steps] == [1, 2]
    assert progress == Progress(
        phase="train", step=2, steps=12, loss=4.0, tokens_per_s=10.0, step_s=0.75, eta_s=7.5, age_s=1.0
    )
    assert reader.poll(now_unix=5.5)[1] == []


def test_a_resumed_run_gives_only_the_steps_after_its_save(folder):
    for step in range(1, 9):
        append_line(folder.metrics, {"step": step})
    reader = ProgressReader(folder, from_end=True, after_step=6)
    assert reader.poll(now_unix=0.0)[1] == []
    # The rank cuts the file back to its save, as a new file, and goes on.
    temporary = folder.path / "aside"
    temporary.write_text("".join(json.dumps({"step": step}) + "\n" for step in range(1, 7)))
    temporary.replace(folder.metrics)
    assert reader.poll(now_unix=0.0)[1] == []
    append_line(folder.metrics, {"step": 7})
    assert [line["step"] for line in reader.poll(now_unix=0.0)[1]] == [7]


def test_the_last_save_is_named_where_it_lies_now(folder):
    fill(folder)
    assert read_run(folder).checkpoint == "/r/checkpoints/step-00000004"
    moved = folder.checkpoints / "step-00000004"
    moved.mkdir(parents=True)
    assert read_run(folder).checkpoint == str(moved)
