"""PULSE lines, and limbo with what must not be taken for it: pure, with the clock given."""

import dataclasses

import pytest

from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.slurm import Job, Memory, Node, RunFacts, State, lost_nodes, take_pulse

NOON = 1_000_000.0
RUNS = Job(
    id="1528763", number=1528763, state=State.RUNS, word="RUNNING", partition="gpu_p5", nodes="iam[01-34,36-49]",
    start="2022-04-29T20:28:38", used_s=113253.0, reason="None", name="tr11",
)  # fmt: skip
WAITS = dataclasses.replace(
    RUNS, id="1528874_[1-3%1]", number=1528874, state=State.WAITS, word="PENDING", nodes=None, start=None, used_s=0.0,
    reason="Dependency",
)  # fmt: skip
FACTS = RunFacts(id="a", step=45000, steps=115311, phase="train", said_unix=NOON - 60, longest_step_s=105.0)


def pulse(jobs, facts=FACTS, memory=None, now_unix=NOON, every_s=3600.0):
    return take_pulse("tr11", jobs, facts, Memory() if memory is None else memory, now_unix=now_unix, every_s=every_s)


def test_the_line_of_a_job_that_runs_and_of_the_next():
    assert pulse([RUNS, WAITS]).line == (
        "tr11 is running for 1 d 7 h since 2022-04-29T20:28:38 (1528763 on 'gpu_p5' partition (iam[01-34,36-49])); "
        "next 1528874_[1-3%1] on 'gpu_p5' is waiting to be scheduled (Dependency); "
        "step 45000/115311, last sign of life 1 min ago"
    )
    assert pulse([RUNS, WAITS]).findings == ()


def test_the_line_of_a_job_that_waits_of_one_that_ends_and_of_an_empty_queue():
    soon = dataclasses.replace(WAITS, start="2022-05-01T09:00:00", reason="Priority")
    assert pulse([soon], RunFacts()).line == (
        "tr11 is waiting to be scheduled (Priority, start expected 2022-05-01T09:00:00) "
        "(1528874_[1-3%1] on 'gpu_p5' partition); no run yet"
    )
    ends = dataclasses.replace(RUNS, state=State.ENDS, word="COMPLETING")
    assert pulse([ends]).line.startswith("tr11 is completing (1528763 on 'gpu_p5' partition (iam[01-34,36-49])); step")
    over = pulse([], dataclasses.replace(FACTS, outcome="done", phase="done"))
    assert over.line == "tr11 is not in the queue: done; step 45000/115311, last sign of life 1 min ago"
    assert over.is_over


def test_lines_come_hourly_and_on_change_alone():
    first = pulse([RUNS])
    assert first.is_new
    later = dataclasses.replace(FACTS, step=45001, said_unix=NOON)
    second = pulse([RUNS], later, first.memory, NOON + 60)
    assert not second.is_new, "a step is no change"
    assert pulse([WAITS], later, second.memory, NOON + 90).is_new
    assert pulse([RUNS], later, second.memory, NOON + 3600).is_new


def test_a_run_that_says_nothing_while_slurm_says_that_it_runs_is_in_limbo():
    first = pulse([RUNS])
    assert pulse([RUNS], memory=first.memory, now_unix=NOON + 460).findings == (), "five of its steps are 525 s"
    found = pulse([RUNS], memory=first.memory, now_unix=NOON + 3 * 3600)
    (finding,) = found.findings
    assert found.is_new
    assert finding == Finding(
        code="L122",
        severity=Severity.WARNING,
        kind=Kind.HANG,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message="job 1528763 runs in SLURM's eyes, and its run's last sign of life is 3 h 1 min old",
        phase=FindingPhase(step=45000),
        evidence=("squeue: RUNNING, None", "step 45000 in train", "limit 525 s"),
        next="scancel 1528763   (the next job of the chain goes on from the last save)",
    )
    assert found.line.startswith("tr11 is in limbo: job 1528763 runs in SLURM's eyes, and its run's last sign of life")


def test_a_rank_that_failed_while_the_job_goes_on_is_named():
    dead = dataclasses.replace(FACTS, failure="rank 7: RuntimeError")
    first = pulse([RUNS], dead)
    (finding,) = pulse([RUNS], dead, first.memory, NOON + 900).findings
    assert finding.message.endswith("is 16 min old; rank 7: RuntimeError has ended the training")


@pytest.mark.parametrize("skew_s", [300.0, -300.0])
def test_a_clock_that_differs_by_minutes_is_no_limbo_and_hides_none(skew_s):
    """Rank 0's host is `skew_s` ahead of ours."""
    memory = Memory()
    for number in range(20):
        now_unix = NOON + 60.0 * number
        facts = dataclasses.replace(FACTS, step=number, said_unix=now_unix + skew_s)
        seen = pulse([RUNS], facts, memory, now_unix)
        assert seen.findings == ()
        memory = seen.memory
    assert pulse([RUNS], facts, memory, now_unix + 526).findings != (), "ages are counted by our own clock"


def test_a_run_of_an_earlier_job_says_nothing_of_one_that_has_just_begun():
    began = dataclasses.replace(RUNS, used_s=20.0)
    old = dataclasses.replace(FACTS, said_unix=NOON - 9000)
    assert pulse([began], old).findings == ()
    assert len(pulse([dataclasses.replace(RUNS, used_s=900.0)], old).findings) == 1


@pytest.mark.parametrize("reason", ["Priority", "Resources", "Dependency", "BeginTime", "JobArrayTaskLimit"])
def test_a_job_that_waits_its_turn_is_no_limbo_however_long(reason):
    job = dataclasses.replace(WAITS, reason=reason)
    first = pulse([job])
    assert pulse([job], memory=first.memory, now_unix=NOON + 9e5).findings == ()


@pytest.mark.parametrize("reason", ["JobHeldUser", "DependencyNeverSatisfied", "launch failed requeued held"])
def test_a_job_that_waits_for_a_person_is_in_limbo(reason):
    (finding,) = pulse([dataclasses.replace(WAITS, reason=reason)]).findings
    assert finding.message == f"job 1528874_[1-3%1] waits for what it never gets by itself: {reason}"


def test_a_job_that_does_not_end_is_in_limbo_and_one_that_has_just_begun_to_is_not():
    ends = dataclasses.replace(RUNS, state=State.ENDS, word="COMPLETING")
    first = pulse([ends])
    assert first.findings == ()
    (finding,) = pulse([ends], memory=first.memory, now_unix=NOON + 600).findings
    assert finding.message == "job 1528763 is completing for 10 min and does not end"


def test_what_was_remembered_is_read_back_and_a_foreign_file_is_nothing():
    memory = dataclasses.replace(pulse([RUNS]).memory, boots={"n1": "t"})
    assert Memory.from_json(memory.to_json()) == memory
    for foreign in (None, {}, {"other": 1}, {"since": 3}, {"since": {"1": [1]}}):
        assert Memory.from_json(foreign) == Memory()


BEFORE = {"n1": "2022-05-01T00:00:00", "n2": "2022-05-01T00:00:00"}


@pytest.mark.parametrize(
    ("node", "boots", "why"),
    [
        (Node(name="n2", state="down*", reason="Not responding"), {}, "does not answer SLURM: down*, Not responding"),
        (Node(name="n2", state="down", reason="Node unexpectedly rebooted"), {},
         "was lost by SLURM: down, Node unexpectedly rebooted"),
        (Node(name="n2", state="idle", reason=None), {"n2": "2022-05-01T03:00:00"},
         "booted at 2022-05-01T03:00:00, while the job held it"),
        (Node(name="n2", state="idle", reason=None), BEFORE, None),
        (Node(name="n2", state="idle", reason=None), {"n2": "2022-05-01T00:00:01"}, None),
        (Node(name="n2", state="idle", reason=None), {"n2": "2022-05-01T00:05:00"}, None),
        (Node(name="n2", state="allocated", reason=None), {}, None),
        (Node(name="n2", state="drained", reason="GPU 3 is slow"), BEFORE, None),
        (Node(name="n2", state="down", reason="maintenance"), BEFORE, None),
        (Node(name="n3", state="down*", reason="Not responding"), {}, None),
    ],
    ids=[
        "silent", "rebooted", "booted since", "healthy", "a second", "its clock was set", "busy", "drained", "set down",
        "another's",
    ],
)  # fmt: skip
def test_a_node_is_lost_for_what_its_machine_did_alone(node, boots, why):
    found = lost_nodes(BEFORE, [node], boots)
    assert [each.message for each in found] == ([] if why is None else [f"host n2 {why}"])
    assert all((each.code, each.cause, each.hosts) == ("L113", Cause.HOST_DOWN, ("n2",)) for each in found)
