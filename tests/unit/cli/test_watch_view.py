"""The live view in a terminal, word for word at 80 and 40 columns, and bounded."""

import json
import os
import pty
import termios
import time

import pytest
from canned_runs import HANG, START, STRAGGLER, append_line, make, metrics_of

from emberward.cli._console import Screen
from emberward.cli._keys import Keys
from emberward.cli._report import watch_run
from emberward.cli._watch_view import KEYS, watch_lines
from emberward.report import Progress, State, read_glance, read_row, row_state

NOW = START + 3600
PROGRESS = Progress(phase="train", step=120, steps=200, loss=2.05, tokens_per_s=8400.0, step_s=0.51, eta_s=41.0)


def view(tmp_path, kind, *, width, height=40):
    glance = read_glance(make(kind, tmp_path, now_unix=NOW), now_unix=NOW)
    lag = {3: [0.18] * 20, 1: [0.0, None] * 10}
    return watch_lines(glance, PROGRESS, losses=[5.0, 4.0, 3.0, 2.0], lag=lag, width=width, height=height)


def test_a_hang_at_80_columns(tmp_path):
    assert view(tmp_path, "hang", width=80) == [
        "STALLED for 4 min 12 s  hang 20261122-094640-ab12",
        "last step 4 min 12 s ago (LATE, limit 30 s)",
        "step 120/200  loss 2.0500  8.4k tok/s  0.51 s/step  ETA 41 s",
        "loss       █▆▃▁  last 4 steps",
        "MFU        41.0%",
        "rank 3     ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅  180 ms behind",
        "rank 1     ▅ ▅ ▅ ▅ ▅ ▅ ▅ ▅ ▅ ▅  0 ms behind",
        "last save  none, 120 steps at risk",
        "",
        "ERROR  H101  a rank never arrived",
        "  what      rank 5 reads a file at data.py:88 and has not joined all_reduce 211;",
        "            7 ranks wait for it",
        "            in step 120, forward",
        "  who       rank 5 (node-01, pp 1 dp 0 tp 1) at data.py:88",
        "            7 wait: ranks 0-4, 6, 7",
        "  why       rank 5 last issued all_reduce 210, its peers 211",
        "            its stack: data.py:88 read, in 6 of 6 snapshots",
        "  not       a dead rank: all 8 processes live",
        "            a mismatch: the calls before are alike",
        "  certainty observed: seen, not concluded",
        "  do        emberward explain 4242",
        "  cost      none of 8 ranks trains",
        "            120 steps since the start would be done again, 1 min 2 s of work",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("kind", ["healthy", "hang", "straggler", "hostile", "empty", "corrupt"])
def test_the_view_fits_its_screen(tmp_path, kind, width):
    lines = view(tmp_path, kind, width=width, height=20)
    assert len(lines) <= 20
    # A word is never cut: only one that is longer than the screen may stand out.
    assert all(len(line) <= width or " " not in line.strip() for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_narrow_screen_has_state_age_and_card_alone(tmp_path):
    lines = view(tmp_path, "straggler", width=50)
    assert lines[0].startswith("RUNNING")
    assert not any(line.startswith(("loss", "rank")) for line in lines)
    assert "WARNING  H140  a rank is waited for in every step" in lines


def test_keys_choose_a_finding_and_show_what_they_do(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    append_line(folder.findings, {**STRAGGLER.to_json(), "attempt": 1})

    def shown(**more):
        glance = read_glance(folder, now_unix=NOW)
        return watch_lines(glance, PROGRESS, losses=[], lag={}, width=100, height=60, **more)

    assert "finding 1 of 2" in shown()
    assert any(line.startswith("ERROR  H101") for line in shown())
    assert any(line.startswith("WARNING  H140") for line in shown(chosen=1))
    assert shown(chosen=2) == shown(chosen=-2) == shown()
    helped = shown(keys=KEYS)
    assert "q          end this view; the run goes on" in helped
    assert not any("H101" in line for line in helped)


def test_a_key_is_read_at_once_and_the_terminal_is_as_before():
    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    try:
        with Keys(follower) as keys:
            assert keys.wait(0) is None
            os.write(leader, b"jq")
            assert (keys.wait(5), keys.wait(5)) == ("j", "q")
        assert termios.tcgetattr(follower)[3] == before[3]
    finally:
        os.close(leader)
        os.close(follower)


def test_without_a_terminal_no_key_comes(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with Keys() as keys:
        assert keys.wait(0) is None


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A run that hangs, goes on for a step and ends while it is watched."""
    folder = make("healthy", tmp_path, now_unix=time.time())
    changes = iter([
        lambda: append_line(folder.findings, {**HANG.to_json(), "attempt": 1}),
        lambda: append_line(folder.metrics, metrics_of(121, steps=200)),
        lambda: append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "failed", "hours": 1.0}),
    ])  # fmt: skip
    monkeypatch.setattr("emberward.cli._report.is_abandoned", lambda _: False)
    monkeypatch.setattr("emberward.cli._report.facts_of", lambda *_: (False, ()))
    monkeypatch.setattr("emberward.cli._report.time.sleep", lambda _: next(changes)())
    return folder


def test_without_a_terminal_a_finding_is_a_line_when_it_comes(hanging, capsys):
    assert watch_run(hanging, Screen(is_json=False)) == 1
    lines = capsys.readouterr().out.splitlines()
    found = [number for number, line in enumerate(lines) if line.startswith(f"error H101 {HANG.message}")]
    steps = [number for number, line in enumerate(lines) if line.startswith("step 121/200")]
    assert len(found) == 1
    assert found < steps


def test_lines_for_a_program_name_their_kind(hanging, capsys):
    assert watch_run(hanging, Screen(is_json=True)) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line["schema"] == 1 for line in lines)
    assert [line["kind"] for line in lines] == ["snapshot", "state", "finding", "step", "state", "end"]
    assert lines[0]["state"] == "running"
    assert (lines[1]["was"], lines[1]["state"]) == ("running", "stalled")
    assert lines[2]["findings"][0]["code"] == lines[2]["card"]["code"] == "H101"
    assert lines[3]["progress"]["step"] == 121
    assert lines[-1]["state"] == "failed"


def test_a_run_without_metrics_has_the_steps_that_its_watcher_saw(tmp_path):
    folder = make("straggler", tmp_path, now_unix=NOW)
    folder.metrics.unlink()
    folder.progress.unlink()
    for path in folder.lag.glob("*.lag"):
        os.utime(path, (NOW - 40, NOW - 40))
    glance = read_glance(folder, now_unix=NOW)
    assert (glance.step, glance.step_s, glance.last_step_unix) == (120, 0.5, NOW - 40)
    assert (glance.state, glance.is_late) == (State.STALLED, True)
    assert read_glance(folder, now_unix=NOW - 20).state is State.RUNNING
    row = read_row(folder)
    assert (row.step, row.step_s) == (120, 0.5)
    assert row_state(row, is_alone=False, now_unix=NOW) is State.STALLED
    assert row_state(row, is_alone=False, now_unix=NOW - 20) is State.RUNNING
