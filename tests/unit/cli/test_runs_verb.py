"""`emberward runs`: each run with its state; half a folder breaks nothing; a thousand runs are no matter."""

import json
import os
import time

import pytest
from canned_runs import HANG, make

from emberward.cli._console import Screen
from emberward.cli._report import report_run
from emberward.cli._runs import list_runs
from emberward.report import RunFolder, append_line, find_runs, read_row, rows_text, write_json


def run_in(place, name: str, number: str, *, minute: int, outcome: str | None, why: str = "done") -> RunFolder:
    """A run that started at that minute of an hour."""
    folder = RunFolder(path=place / name / number)
    folder.path.mkdir(parents=True)
    (folder.path / "config.resolved.yaml").touch()
    append_line(folder.attempts, {"event": "start", "attempt": 1, "start": f"2026-01-01T00:{minute:02d}:00+00:00"})
    if outcome is not None:
        append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": outcome, "why": why})
    append_line(folder.metrics, {"step": 7, "loss": 2.5})
    write_json(folder.progress, {"phase": "train", "step": 7, "steps": 9, "time_unix": 1.0})
    return folder


def listed(place, capsys, limit=None) -> dict:
    assert list_runs(place, Screen(is_json=True), limit=limit) == 0
    return json.loads(capsys.readouterr().out)


def test_each_run_is_shown_with_its_state_the_newest_first(tmp_path, capsys):
    run_in(tmp_path, "tiny", "a", minute=1, outcome="done")
    run_in(tmp_path, "tiny", "b", minute=3, outcome="failed", why="rank 1 died first: killed by SIGKILL")
    left = run_in(tmp_path, "other", "c", minute=2, outcome=None)
    write_json(left.supervisor, {"state": "runs", "time_unix": 1.0, "host": "n1", "pid": 1})
    run_in(tmp_path, "other", "d", minute=0, outcome=None)
    found = listed(tmp_path, capsys)["runs"]
    assert [(each["name"], each["id"], each["state"]) for each in found] == [
        ("tiny", "b", "failed"),
        ("other", "c", "launcher died"),
        ("tiny", "a", "done"),
        ("other", "d", "running"),
    ]
    assert (found[0]["step"], found[0]["steps"], found[0]["loss"]) == (7, 9, 2.5)
    assert [each["why"] for each in found] == ["rank 1 died first: killed by SIGKILL", None, None, None]
    assert [each["id"] for each in listed(tmp_path, capsys, limit=1)["runs"]] == ["b"]


def test_a_loss_that_is_not_finite_is_said_be_it_ours_or_the_programs(tmp_path):
    ours, program, well = (run_in(tmp_path, "tiny", name, minute=1, outcome="done") for name in "abc")
    append_line(ours.metrics, {"step": 8, "loss": None, "nan": 1})
    program.metrics.unlink()
    append_line(program.logged, {"step": 30, "loss": None, "nan": 1, "curve": "loss"})
    rows = [(read_row(each), "done") for each in (ours, program, well)]
    lines = rows_text(rows, now_unix=time.time(), width=None).splitlines()
    assert ["not finite" in line for line in lines[1:]] == [True, True, False]


FILES = ("attempts.jsonl", "metrics.jsonl", "progress.json", "config.resolved.yaml")


def test_a_run_that_an_error_holds_up_is_stalled_here_as_on_its_page_and_says_why(tmp_path, capsys):
    hang = make("hang", tmp_path, now_unix=time.time())
    os.utime(hang.metrics)  # its last step is no older than it may be
    make("straggler", tmp_path, now_unix=time.time())
    found = {each["name"]: each for each in listed(tmp_path, capsys)["runs"]}
    assert (found["hang"]["state"], found["straggler"]["state"]) == ("stalled", "running")
    assert (found["hang"]["why"], found["straggler"]["why"]) == (f"{HANG.code} {HANG.message}", None)
    assert list_runs(tmp_path, Screen(is_json=False), limit=None) == 0
    assert f"  why: {HANG.code} {HANG.message}" in capsys.readouterr().out
    assert report_run(hang, Screen(is_json=False)) == 1
    assert "hang 20261122-094640-ab12: stalled at step 120 of 200" in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, b"", b'{"event": "st', b"\xff\xfe\x00", b"[1, 2]\n7\n"])
def test_half_a_folder_breaks_nothing(tmp_path, capsys, name, content):
    whole = run_in(tmp_path, "tiny", "whole", minute=1, outcome="done")
    half = run_in(tmp_path, "tiny", "half", minute=2, outcome="failed")
    (half.path / name).unlink()
    if content is not None:
        (half.path / name).write_bytes(content)
    (tmp_path / "a file").touch()
    (tmp_path / "tiny" / "empty").mkdir()
    found = {each["id"]: each for each in listed(tmp_path, capsys)["runs"]}
    assert found["whole"]["state"] == "done"
    assert set(found) == {"whole", "half"} - ({"half"} if (name, content) == (FILES[3], None) else set())
    assert whole.path.exists()


def test_a_folder_without_runs_says_so(tmp_path, capsys):
    assert listed(tmp_path / "none", capsys) == {"schema": 1, "findings": [], "runs": [], "num_runs": 0}


def test_rows_for_people_and_for_a_narrow_screen(tmp_path):
    run_in(tmp_path, "tiny", "b", minute=0, outcome="failed", why="rank 1 died first")
    rows = [(read_row(folder), "failed") for folder in find_runs(tmp_path)]
    now_unix = rows[0][0].started_unix + 187
    assert rows_text(rows, now_unix=now_unix, width=80) == (
        "run     state   step  loss    started\ntiny/b  failed  7/9   2.5000  3 min 7 s ago\n  why: rank 1 died first"
    )
    assert rows_text(rows, now_unix=now_unix, width=30).splitlines() == [
        "tiny/b", "  state: failed", "  step: 7/9", "  loss: 2.5000", "  started: 3 min 7 s ago",
        "  why: rank 1 died first",
    ]  # fmt: skip
