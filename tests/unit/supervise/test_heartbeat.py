"""Whether somebody watches a run, and what a person has taken up."""

import dataclasses
import json
import time

import pytest
from unit.cli.door import emberward

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import RunFolder, append_line, read_findings, write_json
from emberward.supervise import Oversight, Patience, silence_finding
from emberward.supervise._overseer import Overseer, own_finding

BEAT = {"host": "n1", "pid": 7, "state": "runs", "attempt": 2, "time_unix": 1000.0}
HANG = Finding(
    code="H125",
    severity=Severity.ERROR,
    kind=Kind.HANG,
    cause=Cause.STOPPED,
    certainty=Certainty.OBSERVED,
    message="rank 1 is stopped",
)

SPIKE = Finding(
    code="R103",
    severity=Severity.WARNING,
    kind=Kind.SPIKE,
    cause=Cause.UNKNOWN,
    certainty=Certainty.OBSERVED,
    message="a spike begins",
)
PATIENCE = Patience(act_after_s=10.0)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "job" / "7"
    path.mkdir(parents=True)
    write_json(path / "command.json", {"command": ["true"]})
    return RunFolder(path=path)


def test_a_supervisor_that_is_silent_is_told(folder):
    write_json(folder.supervisor, BEAT)
    found = silence_finding(folder, now_unix=1090.0)
    assert found is not None
    assert (found.code, found.severity, found.hosts) == ("L110", Severity.WARNING, ("n1",))
    assert found.message == "nobody watches the run: the last heartbeat of its supervisor is 1 min 30 s old"
    assert found.next.startswith("ps -p 7   (on n1); ")


@pytest.mark.parametrize("changed", [{"time_unix": 1065.0}, {"state": "done"}, {"time_unix": None}])
def test_a_fresh_word_an_end_and_no_time_are_no_alarm(folder, changed):
    write_json(folder.supervisor, {**BEAT, **changed})
    assert silence_finding(folder, now_unix=1090.0) is None


def test_a_run_that_ended_or_never_had_a_supervisor_is_no_alarm(folder):
    assert silence_finding(folder, now_unix=1090.0) is None
    write_json(folder.supervisor, BEAT)
    append_line(folder.attempts, {"event": "start", "attempt": 2})
    append_line(folder.attempts, {"event": "end", "attempt": 2, "outcome": "failed"})
    assert silence_finding(folder, now_unix=1090.0) is None


def test_report_tells_of_the_silence_and_a_watcher_that_fails_is_a_warning(folder):
    write_json(folder.supervisor, {**BEAT, "time_unix": time.time() - 3600})
    said = emberward("report", str(folder.path), "--json", cwd=folder.path)
    assert (said.code, [each["code"] for each in said.document["findings"]]) == (0, ["L110"])
    assert own_finding("the watcher of the ranks ended or is silent").severity is Severity.WARNING


def test_an_acknowledged_finding_is_neither_told_nor_acted_on_until_its_time(folder):
    told = folder.path / "told"
    overseer = Overseer(
        folder,
        Oversight(patience=Patience(act_after_s=10.0), notify=f"sh -c 'cat >> {told}'", is_watched=False),
        environment={},
    )
    overseer.begin(1)
    said = emberward("watch", str(folder.path), "--ack", "H125", "--silence-s", "600", cwd=folder.path)
    assert said.out == "H125 is acknowledged: no notification and no action for 10 min\n"
    now_unix = json.loads(folder.acknowledged.read_text())["at_unix"]
    overseer.poll(now_s=0.0, now_unix=now_unix, num_ranks=0)
    overseer._take({"findings": [HANG.to_json()]}, now_s=0.0)
    assert overseer.act(now_s=20.0, now_unix=now_unix + 20.0) == ([], None)
    said, due = overseer.act(now_s=700.0, now_unix=now_unix + 700.0)
    assert ([each.code for each in said], due) == (["L115"], None)
    assert overseer.act(now_s=710.0, now_unix=now_unix + 710.0) == ([], HANG)
    overseer.close(state="done")
    assert json.loads(told.read_text())["code"] == "L115", "once the time of the acknowledgement was over"
    assert [json.loads(line)["code"] for line in folder.findings.read_text().splitlines()] == ["H125", "L115"]
    refused = emberward("watch", str(folder.path), "--ack", "H999", "--json", cwd=folder.path)
    assert (refused.code, refused.document["findings"][0]["code"]) == (2, "C113")


def test_the_same_finding_without_a_word_from_anybody_is_told_and_acted_on(folder):
    told = folder.path / "told"
    overseer = Overseer(
        folder,
        Oversight(patience=Patience(act_after_s=10.0), notify=f"sh -c 'cat >> {told}'", is_watched=False),
        environment={},
    )
    overseer.begin(1)
    overseer._take({"findings": [HANG.to_json()]}, now_s=0.0)
    assert [each.code for each in overseer.act(now_s=0.0, now_unix=0.0)[0]] == ["L115"]
    assert overseer.act(now_s=9.0, now_unix=0.0) == ([], None)
    assert overseer.act(now_s=10.0, now_unix=0.0) == ([], HANG)
    overseer._take({"resolved": [HANG.to_json()]}, now_s=11.0)
    assert overseer.act(now_s=20.0, now_unix=0.0) == ([], None)
    overseer.close(state="done")
    said = [json.loads(line) for line in told.read_text().replace("}{", "}\n{").splitlines()]
    assert [each["code"] for each in said] == ["H125", "L115"]


def test_progress_of_the_rank_defers_what_its_silence_would_end(folder):
    patience = Patience(act_after_s=10.0, max_silence_s=30.0)
    overseer = Overseer(folder, Oversight(patience=patience, is_watched=False), environment={})
    overseer.begin(1)
    late = dataclasses.replace(HANG, severity=Severity.NOTICE, certainty=Certainty.INFERRED, culprit_ranks=(0,))
    overseer._take({"findings": [late.to_json()]}, now_s=0.0)
    assert [each.code for each in overseer.act(now_s=25.0, now_unix=0.0)[0]] == ["L115"]
    overseer._take({"findings": [], "progress": {"1": "it reads or writes"}}, now_s=26.0)
    assert overseer.act(now_s=29.0, now_unix=0.0) == ([], None), "a peer's progress is not that of the rank"
    overseer._take({"findings": [], "progress": {"0": "its system calls return"}}, now_s=29.0)
    assert overseer.act(now_s=40.0, now_unix=0.0) == ([], None)
    assert [each.code for each in overseer.act(now_s=50.0, now_unix=0.0)[0]] == ["L115"], "announced anew"
    assert overseer.act(now_s=59.0, now_unix=0.0) == ([], None), "no snapshot was taken since"
    overseer._take({"findings": [], "progress": {"1": "it reads or writes"}}, now_s=60.0)
    _, due = overseer.act(now_s=60.0, now_unix=0.0)
    assert (due.severity, due.certainty) == (Severity.ERROR, Certainty.INFERRED)
    overseer.close(state="failed")


def test_what_two_snapshots_tell_is_shown_once(folder):
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=False), environment={})
    overseer.begin(1)
    suspected = dataclasses.replace(HANG, severity=Severity.NOTICE)
    first, second = {"findings": [suspected.to_json()], "progress": {}}, {"findings": [HANG.to_json()], "progress": {}}
    assert overseer._take(first, now_s=0.0) == [], "the second snapshot may know better"
    assert overseer._take({"findings": []}, now_s=1.0) == [], "nothing was looked at"
    assert overseer._take(second, now_s=3.0) == [HANG]
    assert overseer._take({"findings": [], "progress": {}}, now_s=6.0) == []
    overseer.close(state="done")


def test_what_corrects_an_incident_is_said_though_it_was_said_before_and_replaces_it(folder):
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=False), environment={})
    overseer.begin(1)
    hang = dataclasses.replace(HANG, culprit_ranks=(1,))
    overseer.report(hang)
    again = dataclasses.replace(hang, message="rank 1 has gone")
    assert overseer.is_said(again), "words alone are no news"
    overseer.correct(again)
    assert not overseer.is_said(again)
    overseer.report(again)
    assert overseer.is_said(again)
    overseer.close(state="failed")
    standing, _ = read_findings(folder, [], None)
    assert [each.message for each in standing] == ["rank 1 has gone"]


def test_the_look_alike_a_notice_that_stays_one_is_shown_and_one_that_is_over_is_not(folder):
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=False), environment={})
    overseer.begin(1)
    stays = dataclasses.replace(HANG, severity=Severity.NOTICE)
    passes = dataclasses.replace(stays, culprit_ranks=(0,))
    assert overseer._take({"findings": [stays.to_json(), passes.to_json()], "progress": {}}, now_s=0.0) == []
    assert overseer._take({"resolved": [passes.to_json()], "progress": {}}, now_s=3.0) == [stays]
    assert overseer._take({"findings": [], "progress": {}}, now_s=6.0) == []
    overseer.close(state="done")


def test_a_death_that_its_launcher_is_about_to_act_on_is_not_announced(folder):
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=False), environment={})
    overseer.begin(1)
    died = dataclasses.replace(HANG, code="L102", kind=Kind.CRASH, cause=Cause.KILLED)
    overseer._take({"findings": [died.to_json()]}, now_s=0.0)
    assert overseer.act(now_s=4.0, now_unix=0.0) == ([], None)
    assert [each.code for each in overseer.act(now_s=6.0, now_unix=0.0)[0]] == ["L115"], "it did not act"
    overseer.close(state="failed")


def test_a_finding_that_is_no_error_any_more_ends_nothing(folder):
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=False), environment={})
    overseer.begin(1)
    overseer._take({"findings": [HANG.to_json()]}, now_s=0.0)
    overseer.act(now_s=0.0, now_unix=0.0)
    overseer._take({"findings": [dataclasses.replace(HANG, severity=Severity.NOTICE).to_json()]}, now_s=5.0)
    assert overseer.act(now_s=20.0, now_unix=0.0) == ([], None)
    overseer.close(state="done")


def test_what_a_rank_writes_down_is_shown_and_told_while_the_run_goes(folder):
    append_line(folder.findings, {**SPIKE.to_json(), "message": "of an earlier attempt"})
    told = folder.path / "told"
    overseer = Overseer(
        folder,
        Oversight(patience=Patience(act_after_s=10.0), notify=f"sh -c 'cat >> {told}'", is_watched=False),
        environment={},
    )
    overseer.begin(1)
    overseer.report(HANG)
    notice = dataclasses.replace(SPIKE, severity=Severity.NOTICE, message="saves wait")
    for finding in (SPIKE, notice):
        append_line(folder.findings, finding.to_json())
    assert overseer.poll(now_s=0.0, now_unix=0.0, num_ranks=0) == [SPIKE, notice]
    assert overseer.poll(now_s=1.0, now_unix=1.0, num_ranks=0) == []
    assert overseer.act(now_s=100.0, now_unix=100.0) == ([], None), "the rank has its own say in what is done"
    last = dataclasses.replace(SPIKE, message="the last one")
    append_line(folder.findings, last.to_json())
    overseer.end()
    overseer.close(state="done")
    said = [json.loads(line) for line in told.read_text().replace("}{", "}\n{").splitlines()]
    assert [(each["code"], each["message"]) for each in said] == [
        ("H125", HANG.message), ("R103", "a spike begins"), ("R103", "the last one"),
    ]  # fmt: skip


@pytest.mark.parametrize("is_too_long", [True, False], ids=["no watcher", "a watcher"])
def test_a_watcher_that_cannot_be_started_is_told_and_one_that_can_is_not(folder, is_too_long):
    """The kernel refuses to start a process whose environment is too long: E2BIG."""
    environment = {"PATH": "/usr/bin", **({"LONG": "x" * (1 << 22)} if is_too_long else {})}
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=True), environment=environment)
    overseer.begin(1)
    overseer._start(overseer._box.folder, now_s=0.0)
    overseer.close(state="done")
    said = [json.loads(line) for line in folder.findings.read_text().splitlines()] if folder.findings.exists() else []
    expected = [("L108", "warning", "the watcher could not be started: [Errno 7] Argument list too long")]
    found = [(each["code"], each["severity"], each["message"].partition(": '")[0]) for each in said]
    assert found == (expected if is_too_long else [])
    if is_too_long:
        assert said[0]["next"] == "free memory or processes on this host"


def test_what_a_job_logged_is_read_though_it_ended_before_a_watcher_was_up(folder):
    overseer = Overseer(folder, Oversight(patience=PATIENCE, is_watched=True), environment={})
    overseer.begin(1)
    notes = [{"line": f"step {step} loss {2.5 - step / 10}", "rank": 0} for step in range(3)]
    (overseer._box.folder / "captured-7-1.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    overseer.close(state="done")
    assert [json.loads(line)["loss"] for line in folder.logged.read_text().splitlines()] == [2.5, 2.4, 2.3]
