"""When a job may be ended, and when a command is run again: tables."""

import dataclasses

import pytest

from emberward.cli._run import rendezvous_s
from emberward.diagnose import roots
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.processes import ProcessId
from emberward.supervise import AttemptOutcome, RunEnd, decide_rerun
from emberward.supervise._act import DEATH_LIMIT_S, Act, Decision, Ending, EndMove, Held, Patience, decide, end_move
from emberward.supervise._exits import Ended
from emberward.supervise._members import Member, Members
from emberward.supervise._overseer import end_announcement, ending_finding

STOPPED = Finding(
    code="H125",
    severity=Severity.ERROR,
    kind=Kind.HANG,
    cause=Cause.STOPPED,
    certainty=Certainty.OBSERVED,
    message="rank 1 is stopped",
)


LATE = dataclasses.replace(
    STOPPED,
    code="H101",
    severity=Severity.WARNING,
    cause=Cause.UNKNOWN,
    certainty=Certainty.INFERRED,
    culprit_ranks=(0,),
    message="rank 0 never arrived: ranks 1, 2 wait for it",
)
"""What time alone makes suspect."""


def held(finding: Finding, **changed) -> Held:
    """The finding, said first at 100 s, with nothing seen to go on since."""
    return Held(**{"finding": finding, "quiet_s": 100.0, "seen_until_s": 300.0, "said_s": 100.0, **changed})


STUCK = [
    {},
    {"certainty": Certainty.PROVED},
    {"kind": Kind.DEADLOCK, "cause": Cause.CYCLE_COLLECTIVE},
    {"kind": Kind.MISMATCH, "cause": Cause.SHAPE},
    {"kind": Kind.MISSING, "cause": Cause.SKIPPED_COLLECTIVE},
    {"kind": Kind.CRASH, "cause": Cause.KILLED},
]
NOT_STUCK = [
    {"severity": Severity.NOTICE},
    {"severity": Severity.WARNING},
    {"certainty": Certainty.INFERRED},
    {"certainty": Certainty.UNKNOWN},
    {"kind": Kind.STRAGGLER},
    {"kind": Kind.SPIKE},
]


@pytest.mark.parametrize("changed", STUCK)
def test_what_cannot_go_on_is_announced_and_ended_when_it_still_holds(changed):
    finding, patience = dataclasses.replace(STOPPED, **changed), Patience(act_after_s=60.0)
    announced = Decision(act=Act.ANNOUNCE, severity=Severity.ERROR, end_in_s=60.0)
    assert decide(held(finding), patience, now_s=100.0) == announced
    told = held(finding, announced_s=100.0)
    assert [decide(told, patience, now_s=now_s).act for now_s in (159.0, 160.0)] == [Act.NOTHING, Act.END]


@pytest.mark.parametrize("changed", NOT_STUCK)
@pytest.mark.parametrize("now_s", [100.0, 160.0, 399.0, 1e6])
def test_what_may_go_on_by_itself_is_never_ended_unasked(changed, now_s):
    finding = dataclasses.replace(STOPPED, **changed)
    assert decide(held(finding), Patience(act_after_s=60.0), now_s=now_s).act in (Act.NOTHING, Act.REPEAT)


@pytest.mark.parametrize("finding", [STOPPED, LATE])
def test_what_was_acknowledged_or_never_wanted_is_not_acted_on(finding):
    patience = Patience(act_after_s=60.0, max_silence_s=60.0)
    known = held(finding, is_acknowledged=True)
    assert decide(known, patience, now_s=1e6).act is Act.NOTHING
    assert decide(held(finding), Patience(act_after_s=0.0), now_s=399.0).act is Act.NOTHING


@pytest.mark.parametrize(
    ("severity", "num_repeats", "said_s", "now_s", "act"),
    [
        (Severity.NOTICE, 0, 100.0, 1e6, Act.NOTHING),
        (Severity.WARNING, 0, 100.0, 399.0, Act.NOTHING),
        (Severity.WARNING, 0, 100.0, 400.0, Act.REPEAT),
        (Severity.WARNING, 1, 400.0, 999.0, Act.NOTHING),
        (Severity.WARNING, 1, 400.0, 1000.0, Act.REPEAT),
        (Severity.WARNING, 2, 1000.0, 2199.0, Act.NOTHING),
        (Severity.WARNING, 2, 1000.0, 2200.0, Act.REPEAT),
    ],
)
def test_a_warning_that_holds_is_said_again_at_growing_intervals(severity, num_repeats, said_s, now_s, act):
    late = held(dataclasses.replace(LATE, severity=severity), said_s=said_s, num_repeats=num_repeats)
    assert decide(late, Patience(), now_s=now_s) == Decision(act=act, severity=severity)


@pytest.mark.parametrize("severity", [Severity.NOTICE, Severity.WARNING])
def test_silence_ends_a_job_only_when_the_user_gave_a_limit_and_progress_defers_it(severity):
    late, patience = dataclasses.replace(LATE, severity=severity), Patience(act_after_s=60.0, max_silence_s=200.0)
    acts = [decide(held(late), patience, now_s=now_s) for now_s in (239.0, 240.0, 290.0)]
    expected = [(Act.NOTHING, None), (Act.ANNOUNCE, 60.0), (Act.ANNOUNCE, 10.0)]
    assert [(each.act, each.end_in_s) for each in acts] == expected
    told = held(late, announced_s=240.0)
    assert [decide(told, patience, now_s=now_s).act for now_s in (299.0, 300.0)] == [Act.NOTHING, Act.END]
    assert decide(told, patience, now_s=300.0).severity is Severity.ERROR
    without_snapshot = held(late, announced_s=240.0, seen_until_s=299.0)
    assert decide(without_snapshot, patience, now_s=310.0).act is Act.NOTHING, "nobody looked for so long"
    went_on = held(late, quiet_s=250.0, said_s=250.0)
    assert decide(went_on, patience, now_s=300.0).act is Act.NOTHING


def test_a_short_limit_is_announced_at_once():
    patience = Patience(act_after_s=60.0, max_silence_s=5.0)
    assert decide(held(LATE), patience, now_s=100.0).end_in_s == 5.0
    assert decide(held(LATE, announced_s=100.0), patience, now_s=105.0).act is Act.END


def test_the_end_of_a_job_is_announced_with_its_time_and_its_way_out():
    said = end_announcement(STOPPED, 60.0, now_unix=1_795_300_000.0)
    assert (said.code, said.severity) == ("L115", Severity.NOTICE)
    assert (
        said.message
        == "the job is ended at 2026-11-21 22:27:40 UTC, in 60 s, unless this is past by then: H125 rank 1 is stopped"
    )
    assert said.next == "emberward watch RUN --ack H125 --silence-s 3600   (the job is not ended for it then)"


def test_the_reason_of_an_end_is_true_to_what_is_known():
    assert ending_finding(STOPPED, quiet_s=None) is STOPPED
    ended_for = ending_finding(LATE, quiet_s=200.0)
    assert (ended_for.severity, ended_for.certainty) == (Severity.ERROR, Certainty.INFERRED)
    expected = "nothing of it went on for 200 s, longer than --max-silence allows; it may have come by itself"
    assert ended_for.evidence[-1] == expected


@pytest.mark.parametrize(
    ("facts", "move"),
    [
        ({}, EndMove.WAIT),
        ({"asked_s": 100.0}, EndMove.TERMINATE),
        ({"died_s": 100.0 - DEATH_LIMIT_S + 0.1}, EndMove.WAIT),
        ({"died_s": 100.0 - DEATH_LIMIT_S}, EndMove.TERMINATE),
        # The others go on calling: the job can do without the one that died.
        ({"died_s": 50.0, "moved_s": 99.0}, EndMove.WAIT),
        ({"died_s": 50.0, "moved_s": 100.0 - DEATH_LIMIT_S}, EndMove.TERMINATE),
        ({"asked_s": 90.0, "terminated_s": 90.5}, EndMove.WAIT),
        ({"asked_s": 90.0, "terminated_s": 90.0}, EndMove.KILL),
        # Nothing but the launcher is left: it makes its last report, and its exit code is the command's.
        ({"died_s": 80.0, "left_s": 81.0}, EndMove.WAIT),
        ({"died_s": 60.0, "left_s": 70.0}, EndMove.TERMINATE),
        # An elastic launcher may wait for other hosts.
        ({"died_s": 60.0, "left_s": 70.0, "left_limit_s": 630.0}, EndMove.WAIT),
    ],
)
def test_a_job_is_ended_by_sigterm_first(facts, move):
    assert end_move(Ending(now_s=100.0, **facts), grace_s=10.0) is move


def ended(
    outcome: AttemptOutcome = AttemptOutcome.FAILED, *, last_step: int | None = None, num_saves: int = 0
) -> RunEnd:
    return RunEnd(outcome=outcome, exit_code=1, findings=(), last_step=last_step, num_saves=num_saves)


@pytest.mark.parametrize(
    ("ends", "is_wanted", "why"),
    [
        ([ended(AttemptOutcome.DONE)], False, "the attempt ended done"),
        ([ended(AttemptOutcome.STOPPED)], False, "the attempt ended stopped"),
        ([ended()], True, "restart 1 of 3"),
        ([ended(), ended()], False, "the last two attempts made no step"),
        ([ended(), ended(last_step=3)], True, "restart 2 of 3"),
        ([ended(last_step=3), ended(last_step=3)], True, "restart 2 of 3"),
        # Where saves are seen, steps without a save are no gain: they are done again each time.
        (
            [ended(last_step=9, num_saves=1), ended(last_step=3), ended(last_step=3)],
            False,
            "the last two attempts ended no save",
        ),
        ([ended(last_step=3)] * 4, False, "all 3 restarts are used"),
    ],
)
def test_a_command_is_run_again_while_it_gains(ends, is_wanted, why):
    found = decide_rerun(ends, max_restarts=3)
    assert (found.is_wanted, found.why) == (is_wanted, why)


def verdict(kind: Kind) -> Finding:
    return dataclasses.replace(STOPPED, code="M104", kind=kind, cause=Cause.UNKNOWN, message=f"a {kind.value}")


@pytest.mark.parametrize(
    ("death", "certainty", "kinds"),
    [
        # What a killed rank leaves behind looks like a missing call and a deadlock: no cause of its death.
        (Cause.KILLED, Certainty.OBSERVED, []),
        (Cause.OUT_OF_MEMORY, Certainty.OBSERVED, []),
        (Cause.MAIN_EXITED, Certainty.OBSERVED, []),
        # gloo raises or aborts on calls that differ, maybe in an innocent rank.
        (Cause.EXCEPTION, Certainty.OBSERVED, [Kind.MISMATCH]),
        (Cause.SEGFAULT, Certainty.OBSERVED, [Kind.MISMATCH]),
        # All deaths are echoes, such as time-outs: then the verdict on the calls is the cause.
        (Cause.UNKNOWN, Certainty.INFERRED, [Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK]),
    ],
)
def test_a_verdict_on_calls_is_the_root_of_a_death_only_when_such_a_death_can_follow(death, certainty, kinds):
    verdicts = [verdict(kind) for kind in (Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK, Kind.HANG)]
    assert [each.kind for each in roots(verdicts, death=death, certainty=certainty)] == kinds


def test_a_rank_leaves_early_because_calls_met_one_place_apart():
    apart = dataclasses.replace(verdict(Kind.MISSING), code="H104", certainty=Certainty.OBSERVED)
    guess = dataclasses.replace(apart, certainty=Certainty.INFERRED)
    assert roots([apart], death=Cause.MAIN_EXITED, certainty=Certainty.OBSERVED) == [apart]
    assert roots([apart], death=Cause.KILLED, certainty=Certainty.OBSERVED) == []
    assert roots([guess], death=Cause.MAIN_EXITED, certainty=Certainty.OBSERVED) == []


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("torchrun --nnodes 4 train.py", None),
        ("torchrun --nnodes=2:4 train.py", 600.0),
        ("torchrun --nnodes 2:4 --rdzv-conf last_call_timeout=5,join_timeout=60 train.py", 60.0),
        ("python train.py", None),
    ],
)
def test_an_elastic_torchrun_may_be_without_ranks_as_long_as_its_rendezvous_takes(command, seconds):
    assert rendezvous_s(command.split()) == seconds


def test_ranks_of_an_elastic_launcher_s_earlier_start_count_no_more():
    """It began with rank 1 here, which died with a peer's host; now the only rank left is rank 0."""

    def latest(*, is_elastic: bool) -> list[int]:
        members = Members(is_elastic=is_elastic)
        dead = Member(rank=1, process=ProcessId(pid=1, created=10.0), ended=Ended(exit_code=1, seen_unix=20.0))
        members.by_pid = {1: dead, 2: Member(rank=0, process=ProcessId(pid=2, created=30.0))}
        return [member.rank for member in members.latest()]

    assert latest(is_elastic=True) == [0]
    assert latest(is_elastic=False) == [0, 1], "one rank may start later than another dies"
