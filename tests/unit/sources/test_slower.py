"""Since when a job's steps are slower, and for whom they wait: from rings of jobs that are written down here."""

from collections.abc import Callable

from unit.sources.test_stragglers import MAIN, MS, WORLD, FakeSampler, no_text, view

from emberward.events import Collective, CollectiveOp, Event, State
from emberward.findings import Cause, Finding, Kind, Severity
from emberward.sources.live._slower import BESIDE_STEPS, marks_beside
from emberward.sources.live._stragglers import StragglerWatch
from emberward.sources.ring import Mark, MarkKind, RingView

CHANGE = 40
NUM = 200


def job(
    own_ms: Callable[[int, int], float], *, call_ms: Callable[[int], float] = lambda step: 50.0, num: int = NUM
) -> dict[int, RingView]:
    """Rings of four ranks that work for `own_ms(rank, step)` and all-reduce: it lasts `call_ms(step)` from the last."""
    events: dict[int, list[Event]] = {rank: [] for rank in range(4)}
    end = 0.0
    for step in range(num):
        began, end = end, end + max(own_ms(rank, step) for rank in range(4)) + call_ms(step)
        for rank in range(4):
            body = Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=8)
            issued_ns = int((began + own_ms(rank, step)) * MS)
            at = {"rank": rank, "position": step + 1, "state": State.COMPLETED, "issued_ns": issued_ns}
            events[rank].append(Event(lane=MAIN, body=body, completed_ns=int(end * MS), **at))
    return {rank: view(rank, own) for rank, own in events.items()}


def said(*jobs: dict[int, RingView]) -> tuple[list[Finding], list[Finding]]:
    """What one watch says of the rings of a job at one moment after the other, and takes back: of slower steps."""
    watch = StragglerWatch(line_of=no_text, sample=lambda pids, seconds: FakeSampler({}))
    new, gone = [], []
    for number, views in enumerate(jobs):
        told, over = watch.poll(views, now_s=10.0 + 5 * number)
        new += [finding for finding in told if finding.code == "P104"]
        gone += [finding for finding in over if finding.code == "P104"]
    return new, gone


def slower(rank: int, step: int) -> float:
    return 150.0 + 10.0 * (rank == 2 and step >= CHANGE)


def test_the_rank_that_became_slower_is_a_warning_in_these_words():
    (finding,), _ = said(job(slower))
    assert (finding.code, finding.severity, finding.kind, finding.cause) == (
        "P104",
        Severity.WARNING,
        Kind.SLOWDOWN,
        Cause.SLOW_RANK,
    )
    assert (finding.culprit_ranks, finding.waiting_ranks, finding.hosts) == ((2,), (0, 1, 3), ("ember",))
    assert finding.phase.step == CHANGE + 1
    assert finding.message == (
        "steps take 210.00 ms since step 41 and took 200.00 ms before: +5.0%; "
        "rank 2 is waited for, 10.00 ms more of its own work"
    )
    assert finding.evidence == ("own work of rank 2: 150.00 ms, now 160.00 ms",)
    assert finding.next == "compare clocks, heat and neighbours of rank 2 with another's"
    assert finding == Finding.from_json(finding.to_json())


def test_it_is_said_once_after_twelve_seconds_and_taken_back_when_steps_are_as_before():
    assert said(job(slower, num=CHANGE + 56)) == ([], []), "for eleven seconds it may be a busy host"
    back = job(lambda rank, step: slower(rank, step if step < NUM else 0), num=NUM + 30)
    new, gone = said(job(slower), job(slower), back)
    assert (len(new), gone) == (1, new)


def test_slower_steps_of_all_ranks_are_nobody_s():
    (finding,), _ = said(job(lambda rank, step: 150.0 + 10.0 * (step >= CHANGE)))
    assert (finding.culprit_ranks, finding.waiting_ranks, finding.cause) == ((), (), Cause.UNKNOWN)
    assert finding.evidence == ("the own work of all ranks grew alike: what they share changed, not one of them",)


def test_a_rank_that_leaves_a_call_later_for_it_waits_is_not_named():
    (finding,), _ = said(job(lambda rank, step: 150.0, call_ms=lambda step: 50.0 + 10.0 * (step >= CHANGE)))
    assert finding.culprit_ranks == ()
    assert finding.evidence == ("the own work of none of the 4 ranks grew by most of that: they wait longer in calls",)


def test_steps_that_last_as_before_are_nothing():
    assert said(job(lambda rank, step: 150.0 + 10.0 * (rank == 2))) == ([], []), "slow from the first step on"
    assert said(job(lambda rank, step: 150.0 + 40.0 * (CHANGE <= step < CHANGE + 20))) == ([], []), "for four seconds"


def test_what_ranks_did_within_two_steps_of_the_change_stands_beside_it():
    def marked(kind: MarkKind, rank: int, began: int, ended: int | None) -> dict[int, RingView]:
        mark = Mark(
            number=1, kind=kind, step=None, name=None, site=None, thread=0, began_ns=began * 200 * MS + MS,
            ended_ns=None if ended is None else ended * 200 * MS + MS,
        )  # fmt: skip
        return {each: view(each, [], marks=(mark,) if rank in (each, -1) else ()) for each in range(2)}

    spans = {rank: {step: (step * 200 * MS, (step + 1) * 200 * MS) for step in range(100)} for rank in range(2)}
    assert marks_beside(40, marked(MarkKind.SAVE, -1, 39, 39), spans) == ("a save in step 39",)
    assert marks_beside(40, marked(MarkKind.EVAL, 0, 30, 38), spans) == ("an evaluation in step 38, on rank 0",)
    end = marked(MarkKind.DATA_END, 1, 40 + BESIDE_STEPS, None)
    assert marks_beside(40, end, spans) == ("the end of a pass over the data in step 42, on rank 1",)
    for far in (marked(MarkKind.SAVE, 0, 30, 37), marked(MarkKind.SAVE, 0, 43, 50), marked(MarkKind.DATA, 0, 40, 40)):
        assert marks_beside(40, far, spans) == ()
