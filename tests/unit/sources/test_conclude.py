"""One answer about an incident: first the calls, then the signal; each conclusion once; for run and explain alike."""

import json
import os
from dataclasses import replace
from pathlib import Path

from unit.cli.door import emberward

from emberward.diagnose import conclude
from emberward.events import CollectiveOp, Group
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import explain_paths
from emberward.sources.ring import RingWriter, identity_here, ring_name
from emberward.sources.ring._format import OP_OF_COLLECTIVE, CallFlag

DIFFER = Finding(
    code="H152",
    severity=Severity.ERROR,
    kind=Kind.MISSING,
    cause=Cause.EXTRA_COLLECTIVE,
    certainty=Certainty.INFERRED,
    message="rank 0 alone makes a call",
    culprit_ranks=(0,),
    waiting_ranks=(1,),
    site="train.py:15",
)
ABORTED = Finding(
    code="L102",
    severity=Severity.ERROR,
    kind=Kind.CRASH,
    cause=Cause.EXCEPTION,
    certainty=Certainty.OBSERVED,
    message="rank 0 died first: aborted itself (SIGABRT)",
    culprit_ranks=(0,),
)
KILLED = replace(ABORTED, cause=Cause.KILLED, message="rank 0 died first: killed by SIGKILL")
BUSY = replace(
    DIFFER,
    code="H106",
    severity=Severity.NOTICE,
    kind=Kind.HANG,
    cause=Cause.UNKNOWN,
    site="train.py:3",
    message="rank 0 runs code of its own",
)


def codes(*findings: Finding, is_over: bool = True) -> list[tuple[str, str]]:
    return [(found.code, found.severity.value) for found in conclude(findings, is_over=is_over)]


def test_the_calls_come_before_the_signal_that_follows_from_them():
    assert codes(ABORTED, DIFFER) == [("H152", "error"), ("L102", "notice")]
    death = conclude([ABORTED, DIFFER], is_over=True)[1]
    assert death.evidence[-1] == "it follows from H152: rank 0 alone makes a call"


def test_a_kill_does_not_follow_from_calls():
    assert ("L102", "error") in codes(KILLED, DIFFER)


def test_what_differs_only_in_who_found_it_is_said_once():
    told = replace(ABORTED, site="/job/train.py:9", message="rank 0 died first: ValueError")
    again = replace(told, code="L102", site="train.py:9", message="rank 0 died: ValueError")
    assert codes(told, again) == [("L102", "error")]
    assert codes(DIFFER, replace(DIFFER, severity=Severity.NOTICE)) == [("H152", "error")]


def test_two_faults_stay_two():
    assert len(codes(DIFFER, replace(DIFFER, site="train.py:40"))) == 2
    assert len(codes(DIFFER, replace(DIFFER, culprit_ranks=(1,)))) == 2
    assert len(codes(ABORTED, replace(ABORTED, culprit_ranks=(1,)))) == 2


def test_a_suspicion_and_a_tie_are_left_out_when_the_end_tells_more():
    tie = replace(DIFFER, code="M101", kind=Kind.MISMATCH, culprit_ranks=(), waiting_ranks=(0, 1), site=None)
    assert codes(BUSY, tie, DIFFER) == [("H152", "error")]
    assert codes(BUSY, DIFFER, is_over=False) == [("H152", "error"), ("H106", "notice")]
    assert codes(BUSY) == [("H106", "notice")]
    other = replace(tie, waiting_ranks=(2, 3))
    assert ("M101", "error") in codes(other, DIFFER)


# -- a run's folder ---------------------------------------------------------------------------------------------------

PAIR = Group(ranks=(0, 1), label="world")
TEXT = """\
def train(rank):
    for x in data:
        if rank == 0:
            dist.all_gather(parts, x)
        dist.all_reduce(x)
"""


def run_folder(place: Path, *, is_wrong: bool = True) -> Path:
    """The folder of an `emberward run` of two ranks, the first of which makes one call more."""
    (place / "train.py").write_text(TEXT)
    events = place / "run" / "events" / "attempt-0001"
    events.mkdir(parents=True)
    for rank in range(2):
        writer = RingWriter(
            events / ring_name(rank=rank, pid=os.getpid() + rank),
            identity_here(rank=rank, world_size=2, local_rank=rank),
        )
        group, usual = writer.group(PAIR), writer.site(str(place / "train.py"), 5, "train")
        op = OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE]
        for _ in range(3):
            writer.done(writer.call(op, group, 128, 1, usual, CallFlag.BLOCKING), group)
        if is_wrong and rank == 0:
            op = OP_OF_COLLECTIVE[CollectiveOp.ALL_GATHER]
            writer.call(op, group, 64, 1, writer.site(str(place / "train.py"), 4, "train"), CallFlag.BLOCKING)
        elif is_wrong:
            writer.call(op, group, 128, 1, usual, CallFlag.BLOCKING)
        writer.close()
    return place / "run"


def test_explain_of_a_run_says_one_thing_once_and_calls_rings_by_their_name(tmp_path):
    folder = run_folder(tmp_path)
    alone = explain_paths([folder]).explanations[0]
    assert alone.read == ("2 rings of Emberward's recorder",)
    assert (alone.verdict.culprit_ranks, alone.verdict.cause) == ((0,), Cause.EXTRA_COLLECTIVE)
    assert "train.py:4 reads: dist.all_gather(parts, x)" in alone.verdict.evidence
    told = [
        {**replace(BUSY, message="an earlier attempt's").to_json(), "attempt": 1},
        {**KILLED.to_json(), "attempt": 1},
        {**BUSY.to_json(), "attempt": 2},
        {**replace(alone.verdict, severity=Severity.NOTICE).to_json(), "attempt": 2},
        {**alone.verdict.to_json(), "attempt": 2},
        {**replace(ABORTED, severity=Severity.NOTICE).to_json(), "attempt": 2},
    ]
    (folder / "findings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    findings = explain_paths([folder]).explanations[0].findings
    assert [(f.code, f.severity.value) for f in findings] == [(alone.verdict.code, "error"), ("L102", "notice")]


def test_check_judges_the_events_of_a_run(tmp_path):
    folder = run_folder(tmp_path)
    said = [emberward("check", str(path), "--json", cwd=tmp_path) for path in (folder, folder / "events")]
    for each in said:
        assert each.code == 1, each.err
        finding = each.document["findings"][0]
        assert (finding["culprit_ranks"], finding["cause"], finding["site"]) == ([0], "extra_collective", "train.py:4")
        assert each.document["proved"] is False


def test_check_of_the_events_of_a_healthy_run_is_no_alarm(tmp_path):
    said = emberward("check", str(run_folder(tmp_path, is_wrong=False)), "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    assert [finding["severity"] for finding in said.document["findings"]] == ["notice"]
    assert said.document["proved"] is False
