"""The card of a run and its state: the same words in terminal, JSON and page, and nobody named without evidence."""

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import typer
from canned_runs import HANG, START, STRAGGLER, make

from emberward.cli import app_of
from emberward.findings import VERBS, Cause, Certainty, Severity, as_typed
from emberward.report import (
    CardFacts,
    Signs,
    State,
    append_line,
    card_of,
    counted_down,
    read_glance,
    read_lines,
    read_row,
    row_state,
    state_of,
    step_limit_s,
    write_json,
)
from emberward.report._findings import read_findings
from emberward.sources.live import resumed_finding
from emberward.supervise._overseer import end_announcement

NOW = START + 3600


def signs(**more):
    calm = {
        "outcome": None, "num_attempts": 1, "is_alone": False, "phase": "train", "step_age_s": 1.0, "step_s": 0.5,
    }  # fmt: skip
    return Signs(**{**calm, **more})


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, State.RUNNING),
        ({"step_age_s": 29.0}, State.RUNNING),
        ({"step_age_s": 31.0}, State.STALLED),
        ({"step_age_s": 31.0, "step_s": 20.0}, State.RUNNING),
        ({"step_age_s": 61.0, "step_s": 20.0}, State.STALLED),
        ({"step_age_s": 900.0, "phase": "eval"}, State.EVALUATING),
        ({"step_age_s": 900.0, "phase": "save"}, State.SAVING),
        ({"step_age_s": None, "phase": "setup"}, State.STARTING),
        ({"step_age_s": None, "phase": None}, State.STARTING),
        ({"step_age_s": None, "phase": None, "num_attempts": 0}, State.NOT_STARTED),
        ({"findings": (HANG,)}, State.STALLED),
        ({"findings": (replace(HANG, severity=Severity.WARNING),)}, State.STALLED),
        ({"findings": (replace(HANG, severity=Severity.NOTICE),)}, State.RUNNING),
        ({"findings": (STRAGGLER,)}, State.RUNNING),
        ({"is_alone": True}, State.ABANDONED),
        ({"outcome": "done", "is_alone": True, "step_age_s": 9e9}, State.DONE),
        ({"outcome": "failed"}, State.FAILED),
        ({"outcome": "of a later version"}, State.FAILED),
    ],
)
def test_a_state_is_decided_by_what_the_folder_shows(given, state):
    assert state_of(signs(**given)) is state


def test_a_step_may_be_as_old_as_three_and_at_least_thirty_seconds():
    assert (step_limit_s(None), step_limit_s(2.0), step_limit_s(60.0)) == (30.0, 30.0, 180.0)


def test_the_card_of_a_hang_word_for_word(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    card = read_glance(folder, now_unix=NOW).card
    assert card is not None
    assert (
        card.text()
        == """\
ERROR  H101  a rank never arrived
  what      rank 5 reads a file at data.py:88 and has not joined all_reduce 211; 7 ranks wait for it
            in step 120, forward
  who       rank 5 (node-01, pp 1 dp 0 tp 1) at data.py:88
            7 wait: ranks 0-4, 6, 7
  why       rank 5 last issued all_reduce 210, its peers 211
            its stack: data.py:88 read, in 6 of 6 snapshots
  not       a dead rank: all 8 processes live
            a mismatch: the calls before are alike
  certainty observed: seen, not concluded
  do        emberward explain 4242
  cost      none of 8 ranks trains
            120 steps since the start would be done again, 1 min 2 s of work"""
    )
    assert [line for label, lines in card.rows for line in lines if label == "who"] == card.to_json()["who"]


def test_a_card_says_what_happens_by_itself_and_how_to_stop_that(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    append_line(folder.findings, {**end_announcement(HANG, 60.0, now_unix=NOW - 20).to_json(), "attempt": 1})
    announced = read_glance(folder, now_unix=NOW).card
    assert announced is not None
    at = f"{datetime.fromtimestamp(NOW + 40, UTC):%Y-%m-%d %H:%M:%S}"
    assert dict(announced.rows)["do"] == (
        "emberward explain 4242",
        f"by itself, the job is ended at {at} UTC, unless this is past by then",
        f"emberward watch {folder.path} --ack H101 --silence-s 3600   (the job is not ended for it then)",
    )
    line = dict(announced.rows)["do"][1]
    assert counted_down(line, now_unix=NOW) == "by itself, the job is ended in 40 s, unless this is past by then"
    assert counted_down(line, now_unix=NOW + 41) == "by itself, the job is ended now, unless this is past by then"
    assert counted_down("emberward explain 4242", now_unix=NOW) == "emberward explain 4242"
    # What was announced for another finding, and what is over, is not said.
    append_line(folder.findings, {**replace(HANG, code="H104", message="later").to_json(), "attempt": 1})
    other = read_glance(folder, now_unix=NOW).card
    assert other is not None and dict(other.rows)["do"] == ("emberward explain 4242",)


def test_a_card_of_an_attempt_that_is_over_sends_nobody_to_its_processes(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    append_line(folder.findings, {**end_announcement(HANG, 60.0, now_unix=NOW - 20).to_json(), "attempt": 1})
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "failed", "hours": 1.0})
    card = read_glance(folder, now_unix=NOW).card
    assert card is not None
    assert dict(card.rows)["do"] == (
        "the attempt is over: the same command goes on from the beginning, for it has no save",
        "said while it ran: emberward explain 4242",
    )
    assert "L115" not in [each.code for each in read_glance(folder, now_unix=NOW).findings], "its end is past"


def test_a_card_says_so_when_nobody_can_be_named():
    nobody = replace(HANG, culprit_ranks=(), hosts=(), site=None, certainty=Certainty.UNKNOWN)
    rows = dict(card_of(nobody, CardFacts()).rows)
    assert rows["who"][0] == "no rank can be named"
    assert rows["certainty"] == ("unknown: the evidence does not tell",)
    assert "rank 5" not in " ".join(rows["who"])


def test_what_was_seen_before_needs_something_in_common(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    for number, (rank, host, site) in enumerate([(5, "other", None), (1, "node-01", None), (1, "far", "x.py:1")]):
        earlier = folder.path.parent / f"20261121-00000{number}-0000"
        earlier.mkdir()
        line = replace(HANG, culprit_ranks=(rank,), hosts=(host,), site=site, message="before").to_json()
        append_line(replace(folder, path=earlier).findings, line)
    card = read_glance(folder, now_unix=NOW).card
    assert card is not None
    assert dict(card.rows)["seen"] == (
        "hang/20261121-000001-0000, attempt 1, step 120: the same on node-01",
        "hang/20261121-000000-0000, attempt 1, step 120: the same rank 5",
    )


def test_a_straggler_costs_no_stopped_ranks(tmp_path):
    card = read_glance(make("straggler", tmp_path, now_unix=NOW), now_unix=NOW).card
    assert card is not None
    assert not any("do not train" in line for line in dict(card.rows)["cost"])


@pytest.mark.parametrize("kind", ["healthy", "spike", "empty", "corrupt"])
def test_the_look_alikes_have_no_card(tmp_path, kind):
    glance = read_glance(make(kind, tmp_path, now_unix=NOW), now_unix=NOW)
    assert glance.card is None
    assert not glance.state.is_bad


def test_what_is_over_since_the_job_went_on_has_no_card_and_what_is_said_again_has(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    said = read_glance(folder, now_unix=NOW)
    worst = max(said.findings, key=lambda each: each.severity is Severity.ERROR)
    assert said.card is not None and worst.severity is Severity.ERROR
    line = next(each for each in read_lines(folder.findings) if each["message"] == worst.message)
    for others in ({"message": "the job goes on: it moved again; it was: another rank"}, None):
        goes_on = resumed_finding(worst).to_json() | (others or {})
        append_line(folder.findings, {**line, **goes_on})
        glance = read_glance(folder, now_unix=NOW)
        assert (worst in glance.recovered) is (others is None)
        assert (worst in glance.findings) is (others is not None)
    append_line(folder.findings, line)
    assert worst in read_glance(folder, now_unix=NOW).findings


def test_a_restart_is_recovered_and_its_lost_hours_are_counted(tmp_path):
    glance = read_glance(make("restart", tmp_path, now_unix=NOW), now_unix=NOW)
    assert glance.card is None
    assert [each.code for each in glance.recovered] == ["L102"]
    assert glance.lost_s == pytest.approx(720)


def test_a_card_has_the_program_as_its_reader_calls_it(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    card = read_glance(folder, now_unix=NOW, program=".venv/bin/emberward").card
    assert card is not None and dict(card.rows)["do"] == (".venv/bin/emberward explain 4242",)
    for text in ("see emberward explain's page", "it is written while emberward watches", "x/emberward explain 1"):
        assert as_typed(text, ".venv/bin/emberward") == text, "no command of ours"
    assert as_typed("emberward ui R", "/my disk/bin/emberward") == "'/my disk/bin/emberward' ui R"
    assert as_typed("emberward report R; then emberward ui R", "./e") == "./e report R; then ./e ui R"


def test_the_verbs_that_make_a_command_are_those_of_the_program():
    assert set(VERBS) == set(typer.main.get_command(app_of(None)).commands)


def test_goodput_counts_no_second_twice(tmp_path):
    folder = make("restart", tmp_path, now_unix=NOW)
    about = read_glance(folder, now_unix=NOW)
    assert about.goodput is not None and not about.is_goodput_exact
    exact = read_glance(folder, now_unix=NOW, trained_s=lambda until: 60.0 if until is None else 0.0)
    assert exact.goodput is not None and exact.is_goodput_exact and exact.goodput.kept_s == 60.0
    append_line(folder.attempts, {"event": "end", "attempt": 2, "outcome": "failed", "hours": 1.0, "hours_lost": 0.5,
                                  "saved_step": 100, "end": "2026-11-22T12:46:40+00:00"})  # fmt: skip
    over = read_glance(folder, now_unix=NOW, trained_s=lambda until: 60.0 if until is None else float(until))
    assert over.goodput is not None and over.goodput.kept_s == 100.0, "what came after the last save is lost"


def test_what_stands_again_is_not_told_as_over_too(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    starts = list(read_lines(folder.attempts))
    for finding in (resumed_finding(HANG), replace(HANG, site="data.py:91", waiting_ranks=(0, 1))):
        append_line(folder.findings, {**finding.to_json(), "attempt": 1})
    standing, recovered = read_findings(folder, starts, None)
    assert ([each.code for each in standing], recovered) == (["H128", "H101"], ())
    append_line(folder.findings, {**replace(HANG, culprit_ranks=(4,), message="rank 4").to_json(), "attempt": 1})
    append_line(folder.findings, {**resumed_finding(replace(HANG, message="rank 4")).to_json(), "attempt": 1})
    _, recovered = read_findings(folder, starts, None)
    assert [each.culprit_ranks for each in recovered] == [(4,)], "another rank got over it"


def test_goodput_counts_a_stall_by_the_minute_and_a_run_that_trains_up_to_its_last_step(tmp_path):
    hang = make("hang", tmp_path, now_unix=NOW)
    seen = {str(read_glance(hang, now_unix=NOW + second, trained_s=lambda _: 60.0).goodput) for second in range(60)}
    assert len(seen) == 2, "one change a minute"
    healthy = make("healthy", tmp_path, now_unix=NOW)
    assert len({str(read_glance(healthy, now_unix=NOW + second).goodput) for second in range(20)}) == 1


def test_of_a_run_that_stands_still_the_card_has_the_notice_that_tells_who_may_hold_it_up(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    polls = replace(HANG, severity=Severity.NOTICE, message="rank 5 sleeps", cause=Cause.SLEEP)
    folder.findings.write_text(json.dumps({**polls.to_json(), "attempt": 1}) + "\n")
    still = read_glance(folder, now_unix=NOW)
    assert still.state is State.STALLED and still.told == polls
    assert still.card is not None and still.card.severity == "notice" and still.card.code == "H101"
    row = read_row(folder)
    assert row.why_in(row_state(row, is_alone=False, now_unix=NOW)) == "H101 rank 5 sleeps"
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "stopped"})
    stopped = read_glance(folder, now_unix=NOW)
    assert stopped.state is State.STOPPED and stopped.told == polls, "nobody has seen it go on"
    folder.attempts.write_text(folder.attempts.read_text().splitlines()[0] + "\n")
    os.utime(folder.metrics, (NOW - 1, NOW - 1))
    goes_on = read_glance(folder, now_unix=NOW)
    assert (goes_on.state, goes_on.card) == (State.RUNNING, None), "a rank that polls while steps go on is no incident"


def test_ranks_without_files_of_their_own_are_those_that_the_watcher_knows(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    shutil.rmtree(folder.ranks)
    folder.attempts.write_text('{"event": "start", "attempt": 1, "start": "2026-11-21T23:00:00+00:00"}\n')
    assert read_glance(folder, now_unix=NOW).num_ranks is None
    write_json(folder.supervisor, {"num_ranks": 8})
    assert read_glance(folder, now_unix=NOW).num_ranks == 8
    write_json(folder.supervisor, {"num_ranks": 0})
    kept = folder.events / "attempt-0001"
    kept.mkdir(parents=True)
    for rank in range(4):
        (kept / f"rank{rank:05d}-{4000 + rank}.ring").touch()
    assert read_glance(folder, now_unix=NOW).num_ranks == 4, "of ranks that are gone the rings are left"
