"""An attempt in which every failure is secondary: who left first, and who stood still before."""

from dataclasses import replace

import pytest

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.processes import ProcessId
from emberward.sources.ring import RingWriter, crash_file, identity_here, ring_name
from emberward.supervise._exits import Ended
from emberward.supervise._members import Member
from emberward.supervise._verdict import RingFacts, command_failed, judge_end, rank_record, read_last_facts

LOST = "[pair.cc:553] Connection closed by peer [127.0.0.1]:7"
TIMED_OUT = "Rank 1 failed to pass monitoredBarrier in 30000 ms"
SLEEPS = Finding(
    code="H101",
    severity=Severity.NOTICE,
    kind=Kind.HANG,
    cause=Cause.SLEEP,
    certainty=Certainty.OBSERVED,
    culprit_ranks=(1,),
    message="rank 1 never arrived: rank 0 waits for it; it sleeps",
    next="take a second stack",
)


def member(rank: int, code: int | None, seen_unix: float = 100.0) -> Member:
    ended = Ended(exit_code=code, seen_unix=seen_unix)
    return Member(rank=rank, process=ProcessId(pid=1000 + rank, created=1.0), ended=ended)


def raised(message: str, at_unix: float = 100.0) -> RingFacts:
    failure = {"type": "RuntimeError", "message": message, "time_unix": at_unix, "site": "/job/train.py:9"}
    return RingFacts(num_calls=9, step=3, num_saves=0, saved_unix=None, failure=failure)


def judged(
    members: list[Member], facts: dict[int, RingFacts], standing: tuple[Finding, ...] = ()
) -> tuple[Finding, ...]:
    return concluded(members, facts, standing=standing)


def concluded(members, facts, *, code=1, verdicts=(), standing=()) -> tuple[Finding, ...]:
    return judge_end(
        code=code,
        records=[rank_record(each, facts.get(each.process.pid)) for each in members],
        facts=facts,
        verdicts=verdicts,
        otherwise=lambda: command_failed(code, ("torchrun", "train.py")),
        standing=standing,
    ).findings


def test_a_rank_that_left_with_code_0_is_named_in_these_words():
    (finding,) = judged([member(0, 1), member(1, 0, 100.2)], {1000: raised(LOST)})
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("L102", (1,), Cause.MAIN_EXITED)
    assert finding.message == "rank 1 ended first: its program ended while rank 0 still needed it"


def test_a_rank_that_left_long_after_the_failure_is_not_blamed():
    (finding,) = judged([member(0, 1), member(1, 0, 160.0)], {1000: raised(LOST)})
    assert finding.culprit_ranks == (0,)


LEFT = replace(raised(LOST), failure=None, left_unix=99.9, has_data_end=True)
"""A rank whose program returned, out of data, before its peers lost it."""
INSIDE = replace(raised(LOST), failure=None, needs=(0, 1, 2), alive_unix=100.0)
"""A rank that was in a call of all to its end."""


def test_a_rank_whose_process_went_long_after_its_program_had_returned_is_named_by_that_return():
    """On a busy machine an interpreter takes seconds to go."""
    (finding,) = judged([member(0, 1), member(1, 0, 107.0)], {1000: raised(LOST), 1001: LEFT})
    assert (finding.culprit_ranks, finding.cause) == ((1,), Cause.UNEVEN_DATA)


@pytest.mark.parametrize("code", [-6, -9])
def test_an_abort_or_a_kill_in_a_call_for_which_a_rank_had_left_follows_from_that(code):
    """What gloo throws in a thread of its own aborts the process; a launcher that waits in vain kills it."""
    killed = replace(INSIDE, alive_unix=130.0)
    others = [member(0, code, 130.1), member(1, 0, 107.0), member(2, 1)]
    (finding,) = judged(others, {1000: killed if code == -9 else INSIDE, 1001: LEFT, 1002: raised(LOST)})
    assert (finding.culprit_ranks, finding.cause) == ((1,), Cause.UNEVEN_DATA)


def test_a_kill_long_after_another_came_to_its_end_is_the_cause():
    (finding,) = judged([member(0, -9, 130.1), member(1, 0)], {1000: replace(INSIDE, alive_unix=130.0), 1001: LEFT})
    assert finding.culprit_ranks == (0,)


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        (-6, replace(INSIDE, needs=(0, 2))),
        (-9, INSIDE),
    ],
)
def test_an_abort_of_its_own_or_a_kill_before_the_others_failed_is_the_cause(code, facts):
    (finding,) = judged([member(0, code, 100.1), member(1, 0), member(2, 1)], {1000: facts, 1002: raised(LOST)})
    assert finding.culprit_ranks == (0,)


def test_an_abort_in_a_call_that_nobody_had_left_is_the_cause():
    (finding,) = judged([member(0, -6), member(1, 1)], {1000: INSIDE, 1001: raised(LOST)})
    assert finding.culprit_ranks == (0,)


def test_a_rank_that_left_is_not_blamed_for_a_failure_of_another_s_own():
    (finding,) = judged([member(0, 1), member(1, 0, 99.0)], {1000: raised("shapes cannot be multiplied")})
    assert (finding.culprit_ranks, finding.cause) == ((0,), Cause.EXCEPTION)
    assert finding.site == "train.py:9", "the file by its short name, as in all findings"


def test_who_stood_still_is_named_when_the_job_s_own_time_out_ended_the_waiting():
    root, victim = judged([member(0, 1), member(1, -15)], {1000: raised(TIMED_OUT)}, (SLEEPS,))
    assert (root.code, root.culprit_ranks, root.severity) == ("H101", (1,), Severity.ERROR)
    assert root.evidence[-1] == "the job's own time-out, not ours, ended the ranks that waited"
    assert (victim.code, victim.severity) == ("L102", Severity.NOTICE)
    assert victim.evidence[-1] == f"it follows from H101: {SLEEPS.message}"


def test_who_stood_still_is_not_blamed_for_a_failure_of_another_s_own():
    (finding,) = judged([member(0, 1), member(1, -15)], {1000: raised("loss is nan")}, (SLEEPS,))
    assert finding.culprit_ranks == (0,)


def test_a_rank_that_itself_raised_is_no_root_by_standing_still():
    found = judged([member(0, 1), member(1, 1)], {1000: raised(TIMED_OUT), 1001: raised(LOST)}, (SLEEPS,))
    assert [finding.code for finding in found] == ["L102"]


@pytest.mark.parametrize(("code", "site"), [(-11, "train.py:27"), (-6, "train.py:27"), (-9, None)])
def test_a_crash_is_named_with_its_line_and_a_kill_is_not(tmp_path, code, site):
    """A killed rank whose data worker crashed before has that crash in its file too."""
    ring = tmp_path / ring_name(rank=0, pid=1000)
    RingWriter(ring, identity_here(rank=0, world_size=1, local_rank=0)).close()
    crash_file(ring).write_text(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f0000000000 (most recent call first):\n"
        '  File "/job/train.py", line 27 in step\n  File "/job/train.py", line 40 in <module>\n'
    )
    facts = read_last_facts(ring)
    assert facts is not None
    (finding,) = judged([member(0, code)], {1000: facts})
    assert (finding.culprit_ranks, finding.site) == ((0,), site)


def test_calls_that_differ_are_the_root_also_when_the_judge_knows_which_was_left_out():
    extra = replace(SLEEPS, code="M102", kind=Kind.MISSING, cause=Cause.EXTRA_COLLECTIVE, severity=Severity.ERROR)
    found = concluded([member(0, -6)], {}, verdicts=(extra,))
    assert [(f.code, f.severity) for f in found] == [("M102", Severity.ERROR), ("L102", Severity.NOTICE)]


@pytest.mark.parametrize(("message", "code"), [(LOST, "L106"), ("loss is nan", "L102")])
def test_who_lost_a_launcher_that_was_killed_did_not_die_first(message, code):
    (finding,) = concluded([member(0, 1), member(1, 1)], {1000: raised(message), 1001: raised(LOST)}, code=-9)
    assert finding.code == code
