"""Which of several claims about one incident stand: one table, whatever the order in which rules are given."""

import itertools
from dataclasses import replace

import pytest

from emberward.diagnose import Evidence, Ground, conclude, hear, judge
from emberward.findings import Cause, Certainty, CycleMember, Finding, Kind, Severity

NAMED = Finding(
    code="H101",
    severity=Severity.ERROR,
    kind=Kind.HANG,
    cause=Cause.SLEEP,
    certainty=Certainty.OBSERVED,
    message="rank 1 never arrived",
    culprit_ranks=(1,),
    waiting_ranks=(0, 2),
    site="train.py:7",
)
NOBODY = replace(NAMED, code="H107", culprit_ranks=(), certainty=Certainty.UNKNOWN, cause=Cause.UNKNOWN)
DIFFER = replace(NOBODY, code="M102", kind=Kind.MISMATCH, cause=Cause.SHAPE)
DEATH = replace(NAMED, code="L102", kind=Kind.CRASH, cause=Cause.KILLED, site=None)

CYCLE = replace(
    NOBODY,
    code="M104",
    kind=Kind.DEADLOCK,
    cause=Cause.CYCLE_P2P,
    cycle=tuple(CycleMember(rank=rank, op="recv", site=None, waits_for=(1 - rank,)) for rank in (0, 1)),
)


def heard(**rules: Finding) -> list[str]:
    """The grounds whose claims stand, each rule giving one finding."""
    return [claim.ground.value for claim in hear({Ground(name): lambda f=f: [f] for name, f in rules.items()})]


@pytest.mark.parametrize("order", list(itertools.permutations(("calls", "stacks", "logs"))))
def test_recorded_calls_that_name_somebody_leave_nothing_to_stacks_and_logs(order):
    assert heard(**dict.fromkeys(order, NAMED)) == ["calls"]


def test_what_recorded_calls_leave_open_stacks_may_say_and_then_logs():
    assert heard(calls=NOBODY, stacks=NAMED, logs=NAMED) == ["calls", "stacks"]
    assert heard(calls=NOBODY, stacks=NOBODY, logs=NAMED, ras=NAMED) == ["calls", "stacks", "logs", "ras"]


def test_calls_that_differ_are_no_ring_of_stacks_though_nobody_is_named_and_a_log_may_tell_the_side():
    assert heard(calls=DIFFER, stacks=NAMED, logs=NAMED) == ["calls", "logs"]


def test_a_rule_that_is_silenced_is_not_run():
    def never() -> list[Finding]:
        raise AssertionError("it was run")

    assert len(hear({Ground.CREATION: lambda: [NAMED], Ground.CALLS: never, Ground.STACKS: never})) == 1


def test_an_end_is_always_heard_unless_the_calls_tell_of_that_death():
    assert heard(calls=NAMED, ends=DEATH) == ["calls", "ends"]
    assert heard(calls=DEATH, ends=DEATH) == ["calls"]


def test_a_death_that_was_seen_explains_every_wait_and_a_process_that_was_stopped():
    waits = dict.fromkeys(("creation", "credits", "calls", "lines", "stacks", "stopped"), NAMED)
    assert heard(deaths=DEATH, **waits) == ["deaths"]
    assert heard(**waits) == ["stopped"]
    assert heard(creation=NAMED, credits=NAMED, calls=NAMED) == ["creation"]
    assert heard(credits=NAMED, calls=NAMED) == ["credits"]


def test_calls_that_differ_come_before_the_deaths_and_are_told_with_them():
    (claim,) = hear({Ground.CALLS: lambda: [DIFFER, NAMED], Ground.DEATHS: lambda: [DEATH, DEATH]})
    assert claim.ground is Ground.CALLS
    assert claim.finding.code == "M102"
    assert claim.finding.evidence == (f"as a consequence: {DEATH.message}",) * 2
    assert claim.finding.certainty is Certainty.OBSERVED


def test_the_call_of_an_abort_is_asked_for_where_recorded_calls_do_not_differ_and_stays_as_sure_as_it_was():
    met = replace(NAMED, code="H152", certainty=Certainty.INFERRED)
    assert heard(calls=DIFFER, aborts=met, deaths=DEATH) == ["calls"]
    (claim,) = hear({Ground.CALLS: lambda: [NAMED], Ground.ABORTS: lambda: [met], Ground.DEATHS: lambda: [DEATH]})
    assert (claim.ground, claim.finding.certainty) == (Ground.ABORTS, Certainty.INFERRED)


def test_what_a_shift_of_lines_brings_about_is_not_said_beside_it():
    other = replace(NAMED, culprit_ranks=(2,))
    assert heard(lines=NAMED, calls=NAMED) == ["lines"]
    assert heard(lines=NAMED, calls=other) == ["lines", "calls"]


def test_a_call_that_all_have_issued_is_no_ring_of_receives():
    met, ring = replace(NOBODY, code="H103"), replace(NOBODY, code="H111", kind=Kind.DEADLOCK)
    assert heard(calls=met, stacks=ring) == ["calls"]
    assert heard(calls=NOBODY, stacks=ring) == ["calls", "stacks"]


def test_one_conclusion_of_two_sources_is_said_once_whatever_part_of_the_path_they_tell():
    again = replace(NAMED, code="H106", site="job/train.py:7", certainty=Certainty.INFERRED)
    assert conclude([again, NAMED], is_over=False) == [NAMED]
    assert len(conclude([replace(again, site="job/train.py:8"), NAMED], is_over=False)) == 2


def test_who_is_named_is_read_first_among_findings_of_one_severity():
    assert conclude([NOBODY, NAMED], is_over=False) == [NAMED, NOBODY]


WORKER = replace(NAMED, cause=Cause.DATALOADER_WORKER, site="train.py:30")
ABSENT = replace(NAMED, cause=Cause.UNKNOWN, certainty=Certainty.INFERRED, site=None)


@pytest.mark.parametrize("verdict", [WORKER, replace(WORKER, certainty=Certainty.INFERRED), DIFFER, DEATH])
def test_of_a_job_that_was_ended_for_a_verdict_who_never_arrived_without_why_is_not_said_behind_it(verdict):
    verdict = replace(verdict, culprit_ranks=(2,), waiting_ranks=(0, 1))
    told = [each for each in conclude([verdict, ABSENT], is_over=True) if each.severity is Severity.ERROR]
    assert told == [verdict]
    assert conclude([ABSENT, verdict], is_over=True)[0] == verdict


@pytest.mark.parametrize("verdict", [NOBODY, replace(WORKER, severity=Severity.WARNING)])
def test_what_names_nobody_or_is_no_error_leaves_who_never_arrived(verdict):
    assert ABSENT in conclude([verdict, ABSENT], is_over=True)


def test_a_second_rank_that_is_seen_to_do_something_else_is_said_too():
    assert len(conclude([WORKER, replace(NAMED, culprit_ranks=(2,))], is_over=True)) == 2


def test_ranks_of_groups_apart_that_depart_alike_are_one_finding_and_ranks_that_meet_are_two():
    one = replace(NAMED, code="M103", kind=Kind.MISSING, culprit_ranks=(0,), waiting_ranks=(1,))
    apart, meets = (replace(one, culprit_ranks=(2,), waiting_ranks=(rank,)) for rank in (3, 1))
    (both,) = conclude([one, apart], is_over=False)
    assert (both.culprit_ranks, both.waiting_ranks) == ((0, 2), (1, 3))
    assert len(conclude([one, meets], is_over=False)) == 2
    assert len(conclude([one, replace(apart, site="train.py:8")], is_over=False)) == 2


def test_an_exception_of_nobody_in_a_log_is_no_death_where_stacks_show_who_stands():
    caught = replace(DEATH, culprit_ranks=(), waiting_ranks=())
    found = {
        each.ground: each.finding.severity
        for each in hear({Ground.STACKS: lambda: [NAMED], Ground.ENDS: lambda: [caught]})
    }
    assert found == {Ground.STACKS: Severity.ERROR, Ground.ENDS: Severity.NOTICE}
    (alone,) = hear({Ground.STACKS: lambda: [NOBODY], Ground.ENDS: lambda: [caught]})[1:]
    assert alone.finding.severity is Severity.ERROR


def test_of_a_rank_that_left_the_order_at_a_line_one_way_is_told_the_first_of_the_surest():
    skipped = replace(NAMED, code="H104", kind=Kind.MISSING, cause=Cause.SKIPPED_COLLECTIVE)
    extra = replace(NAMED, code="M101", kind=Kind.MISMATCH, cause=Cause.EXTRA_COLLECTIVE)
    assert conclude([skipped, extra], is_over=True) == [skipped]
    guess = replace(skipped, certainty=Certainty.INFERRED)
    assert conclude([guess, extra], is_over=True) == [extra]
    for other in (replace(extra, site="train.py:8"), replace(extra, culprit_ranks=(2,)), replace(NAMED, site=None)):
        assert conclude([skipped, other], is_over=True) == [skipped, other]


def test_a_rank_dies_once_whoever_tells_how():
    told = replace(DEATH, code="L102", cause=Cause.DATALOADER_WORKER, site="train.py:24")
    assert conclude([told, DEATH], is_over=True) == [told]
    assert conclude([told, replace(DEATH, culprit_ranks=(2,))], is_over=True) == [
        told,
        replace(DEATH, culprit_ranks=(2,)),
    ]


@pytest.mark.parametrize(
    ("prior", "stand"),
    [
        (replace(NAMED, code="H125", cause=Cause.STOPPED), ["H125"]),
        (replace(NAMED, code="H125", cause=Cause.STOPPED, severity=Severity.NOTICE), ["M104"]),
        (replace(DEATH, code="L102"), ["L102"]),
        (replace(DEATH, code="L102", cause=Cause.SEGFAULT), ["L102"]),
        (replace(DEATH, code="L102", certainty=Certainty.INFERRED), ["M104", "L102"]),
    ],
    ids=["stopped", "stopped for a while", "killed", "crashed", "who died first is not sure"],
)
def test_what_a_run_saw_is_heard_beside_what_its_files_look_like_afterwards(prior, stand):
    """Rings that end where a process was stopped or killed look like a deadlock."""
    rules = {Ground.CALLS: lambda: [CYCLE]}
    found = judge(Evidence(label="a run", prior=[prior]), rules=rules).findings
    assert [finding.code for finding in found] == stand


@pytest.mark.parametrize(
    ("death", "stand"),
    [
        (replace(DEATH, cause=Cause.SEGFAULT), ["ends"]),
        (replace(DEATH, cause=Cause.SEGFAULT, culprit_ranks=(2,)), ["calls", "ends"]),
        (DEATH, ["calls", "ends"]),
        (replace(DEATH, cause=Cause.EXCEPTION, certainty=Certainty.INFERRED), ["calls", "ends"]),
    ],
    ids=["a member crashed", "another crashed", "somebody killed a member, as a user does who waits", "a time-out"],
)
def test_of_files_alone_a_rank_that_died_of_itself_is_in_no_deadlock(death, stand):
    assert heard(calls=CYCLE, ends=death) == stand
