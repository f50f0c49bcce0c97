"""When a job may be ended, and when a command is run again: tables."""

import dataclasses

import pytest

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.supervise import Outcome, RunEnd, decide_rerun
from emberward.supervise._act import DEATH_LIMIT_S, Ending, EndMove, end_move, is_due
from emberward.supervise._verdict import roots

STOPPED = Finding(
    code="H125",
    severity=Severity.ERROR,
    kind=Kind.HANG,
    cause=Cause.STOPPED,
    certainty=Certainty.OBSERVED,
    message="rank 1 is stopped",
)


@pytest.mark.parametrize(
    ("changed", "age_s", "act_after_s", "is_acknowledged", "due"),
    [
        ({}, 60.0, 60.0, False, True),
        ({}, 59.0, 60.0, False, False),
        ({}, 600.0, 0.0, False, False),
        ({}, 600.0, 60.0, True, False),
        ({"severity": Severity.NOTICE}, 600.0, 60.0, False, False),
        ({"severity": Severity.WARNING}, 600.0, 60.0, False, False),
        ({"certainty": Certainty.PROVED}, 60.0, 60.0, False, True),
        ({"certainty": Certainty.INFERRED}, 600.0, 60.0, False, False),
        ({"certainty": Certainty.UNKNOWN}, 600.0, 60.0, False, False),
        ({"kind": Kind.STRAGGLER}, 600.0, 60.0, False, False),
        ({"kind": Kind.DEADLOCK}, 60.0, 60.0, False, True),
        ({"kind": Kind.SPIKE}, 600.0, 60.0, False, False),
    ],
)
def test_a_job_is_never_ended_on_a_guess(changed, age_s, act_after_s, is_acknowledged, due):
    finding = dataclasses.replace(STOPPED, **changed)
    assert due is is_due(
        finding, since_s=100.0, now_s=100.0 + age_s, act_after_s=act_after_s, is_acknowledged=is_acknowledged
    )


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
    ],
)
def test_a_job_is_ended_by_sigterm_first(facts, move):
    assert end_move(Ending(now_s=100.0, **facts), grace_s=10.0) is move


def ended(outcome: Outcome = Outcome.FAILED, *, last_step: int | None = None, num_saves: int = 0) -> RunEnd:
    return RunEnd(outcome=outcome, exit_code=1, findings=(), last_step=last_step, num_saves=num_saves, seconds=1.0)


@pytest.mark.parametrize(
    ("ends", "is_wanted", "why"),
    [
        ([ended(Outcome.DONE)], False, "the attempt ended done"),
        ([ended(Outcome.STOPPED)], False, "the attempt ended stopped"),
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
