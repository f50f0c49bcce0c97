"""From rings to a word about who is waited for, and about ranks that run something else; no process is started."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from emberward.diagnose import Frame
from emberward.events import Collective, CollectiveOp, Event, Group, HostSync, Lane, LaneKind, Site, State, SyncKind
from emberward.findings import Cause, Finding, Kind, Severity
from emberward.sources.live._lasting import difference_finding, lasting_differences
from emberward.sources.live._lines import LineShares, line_shares, odd_line
from emberward.sources.live._own_time import own_times
from emberward.sources.live._skew import TOLD, SkewWatch, skew_findings
from emberward.sources.live._stragglers import FORGET_S, StragglerWatch
from emberward.sources.ring import GroupCount, Mark, MarkKind, RingView

MS = 1_000_000
MAIN = Lane(kind=LaneKind.HOST)
COMM = Lane(kind=LaneKind.COMM)
WORLD = Group(ranks=(0, 1, 2, 3), label="world")


def no_text(_: Frame) -> str | None:
    return None


class FakeSampler:
    """Answers at once with what a test says was sampled."""

    is_done = True

    def __init__(self, shares: Mapping[int, LineShares]) -> None:
        self._shares = shares

    def take(self, line_of, *, within_s=0.0):
        return self._shares

    def close(self) -> None:
        """Nothing runs."""


def calls(rank: int, own_ms: Sequence[float], *, first: int = 1, group: Group = WORLD) -> list[Event]:
    """All-reduces that end every 200 ms; before each the rank has so much work of its own."""
    return [
        Event(
            rank=rank,
            lane=MAIN,
            position=first + i,
            body=Collective(op=CollectiveOp.ALL_REDUCE, group=group, dtype="float32", numel=8),
            issued_ns=int((200 * (first + i - 1) + own) * MS),
            completed_ns=200 * (first + i) * MS,
            state=State.COMPLETED,
        )
        for i, own in enumerate(own_ms)
    ]


def launched(rank: int, steps: Sequence[tuple[float, float, float, float]]) -> list[Event]:
    """All-reduces of a device, in ms: until when the host reads, when it calls, when the device comes, and the end."""
    events = []
    for i, (read, issued, began, ended) in enumerate(steps):
        at = {"rank": rank, "position": i, "state": State.COMPLETED}
        reading = {"issued_ns": int((issued if i == 0 else steps[i - 1][1]) * MS), "completed_ns": int(read * MS)}
        events.append(Event(**at, lane=MAIN, body=HostSync(kind=SyncKind.ITEM), **reading))
        call = {"issued_ns": int(issued * MS), "started_ns": int(began * MS), "completed_ns": int(ended * MS)}
        body = Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=8)
        events.append(Event(**at, lane=COMM, body=body, **call))
    return events


def device_job(*, of_device: float, of_odd: float, host: float, late_step: int | None = None) -> dict[int, RingView]:
    """Rings of 40 steps in which each host reads the last result, works `host` ms, gives its device `of_device` ms
    (rank 3 `of_odd`) to do and calls; at `late_step` rank 3's host comes a second later, once."""
    ready, calls, end = dict.fromkeys(range(4), 0.0), {rank: [] for rank in range(4)}, 0.0
    for step in range(40):
        read = {rank: max(ready[rank], end if step else 0.0) for rank in range(4)}
        pause = {rank: 1000.0 if (rank, step) == (3, late_step) else 0.0 for rank in range(4)}
        issued = {rank: max(ready[rank], read[rank]) + host + pause[rank] for rank in range(4)}
        began = {rank: max(issued[rank], end) + (of_odd if rank == 3 else of_device) for rank in range(4)}
        end = max(began.values()) + 1
        for rank in range(4):
            calls[rank].append((read[rank], issued[rank], began[rank], end))
            ready[rank] = issued[rank]
    return {rank: device_view(rank, launched(rank, calls[rank])) for rank in range(4)}


def device_view(rank: int, events: list[Event]) -> RingView:
    """The ring of a rank on a device, each collective with its number."""
    made = [event for event in events if isinstance(event.body, Collective)]
    return replace(view(rank, events), sequences={event.ref: i + 1 for i, event in enumerate(made)})


def broadcasts(rank: int, sizes: Sequence[int], *, dtype: str = "int64", root: int = 0) -> list[Event]:
    """Broadcasts of one line, of the given sizes."""
    return [
        Event(
            rank=rank,
            lane=MAIN,
            position=i + 1,
            body=Collective(op=CollectiveOp.BROADCAST, group=WORLD, dtype=dtype, numel=size, root=root),
            site=Site(file="/job/train.py", line=46, function="next"),
            issued_ns=200 * i * MS,
            completed_ns=(200 * i + 1) * MS,
            state=State.COMPLETED,
        )
        for i, size in enumerate(sizes)
    ]


def mixed(sizes: Mapping[int, Sequence[int]], **odd) -> dict[int, RingView]:
    """Rings of ranks in whose group torch makes calls below Python too; `odd` are rank 3's own arguments."""
    count = GroupCount(issued=8, completed=8, p2p_issued=0, p2p_completed=0, sequence=40, moved_ns=0)
    return {
        r: view(r, broadcasts(r, sizes.get(r, [256] * 8), **(odd if r == 3 else {})), groups={WORLD: count})
        for r in range(4)
    }


@pytest.mark.parametrize(
    ("sizes", "odd", "cause", "says"),
    [
        ({3: [256, 256, *[288] * 6]}, {}, Cause.SHAPE, "rank 3: 288 elements of int64, root 0"),
        ({}, {"dtype": "int32"}, Cause.DTYPE, "rank 3: 256 elements of int32, root 0"),
        ({}, {"root": 1}, Cause.DIFFERENT_ROOT, "rank 3: 256 elements of int64, root 1"),
    ],
)
def test_a_line_that_differs_for_good_beside_ddp_is_an_error(sizes, odd, cause, says):
    (found,) = (difference_finding(each) for each in lasting_differences(mixed(sizes, **odd)))
    assert (found.code, found.cause, found.culprit_ranks, found.site) == ("M102", cause, (3,), "train.py:46")
    assert (found.severity, found.kind) == (Severity.ERROR, Kind.MISMATCH)
    assert says in found.evidence


@pytest.mark.parametrize(
    "sizes",
    [{}, {3: [*[256] * 7, 288]}, {3: [256] * 3}, {r: [64, 128, 256, 512] * 2 for r in (0, 1, 2)}],
    ids=["equal", "one that changes as the others will", "too few to tell", "sizes that change all the time"],
)
def test_a_line_whose_sizes_change_is_no_error(sizes):
    assert lasting_differences(mixed(sizes)) == ()


def view(rank: int, events: Sequence[Event], **changes) -> RingView:
    return RingView(
        path=Path(f"rank{rank}.ring"),
        read_unix=0.0,
        read_ns=0,
        rank=rank,
        pid=1000 + rank,
        host="ember",
        events=tuple(events),
        sequences={event.ref: event.position for event in events},
        num_calls=len(events),
        is_complete=True,
        **changes,
    )


def job(own_ms: Mapping[int, Sequence[float]]) -> dict[int, RingView]:
    return {rank: view(rank, calls(rank, values)) for rank, values in own_ms.items()}


def watch(shares: Mapping[int, LineShares]) -> StragglerWatch:
    return StragglerWatch(line_of=no_text, sample=lambda pids, seconds: FakeSampler(shares))  # type: ignore[return-value]


def said(own_ms: Mapping[int, Sequence[float]], shares: Mapping[int, LineShares]) -> tuple[Finding, ...]:
    """What two checks of the same rings say."""
    found = watch(shares)
    first, _ = found.poll(job(own_ms), now_s=10.0)
    assert first == (), "one check says nothing yet"
    return found.poll(job(own_ms), now_s=15.0)[0]


EVEN = {rank: [150.0] * 40 for rank in range(4)}
SLOW = {**EVEN, 2: [160.0] * 40}
SAMPLED = {
    1002: LineShares(counts={"train.py:20": 120, "train.py:31": 8}, num_samples=150),
    1001: LineShares(counts={"train.py:20": 118}, num_samples=150),
}


def test_a_rank_that_is_waited_for_is_a_warning_in_these_words():
    (found,) = said(SLOW, SAMPLED)
    assert (found.code, found.severity, found.kind, found.cause) == (
        "H140",
        Severity.WARNING,
        Kind.STRAGGLER,
        Cause.SLOW_RANK,
    )
    assert (found.culprit_ranks, found.waiting_ranks, found.hosts) == ((2,), (0, 1, 3), ("ember",))
    assert found.site == "train.py:31"
    assert found.message == "rank 2 is waited for in every step: 10 ms of 0.200 s (5.0%), at train.py:31"
    assert found.ruled_out == ("ranks 0, 1, 3 wait for it: their own parts are shorter",)


@pytest.mark.parametrize(("of_odd", "late_step", "culprits"), [(150, None, (3,)), (100, None, ()), (100, 20, ())])
def test_a_slow_device_is_a_straggler_and_one_long_pause_of_a_host_makes_none(of_odd, late_step, culprits):
    views = device_job(of_device=100, of_odd=of_odd, host=60, late_step=late_step)
    watch = StragglerWatch(line_of=no_text, sample=lambda pids, seconds: FakeSampler({}))
    found = watch.conclude(views)
    assert [each.culprit_ranks for each in found] == ([culprits] if culprits else [])
    own = {rank: own_times(each).steps[-1].own_s for rank, each in views.items()}
    assert own == pytest.approx({0: 0.160, 1: 0.160, 2: 0.160, 3: (60 + of_odd) / 1000})


def test_a_step_is_judged_when_the_device_has_told_of_a_later_call():
    events = device_job(of_device=100, of_odd=100, host=60)[0].events
    last = [replace(e, started_ns=None, completed_ns=None) if e.position >= 38 else e for e in events]
    assert own_times(device_view(0, last)).steps[-1].number == 38, "the call of position 37"


def test_the_end_of_a_job_tells_who_was_waited_for_after_one_check_or_none():
    found = watch(SAMPLED)
    assert found.poll(job(SLOW), now_s=10.0) == ((), ())
    (late,) = found.conclude(job(SLOW))
    assert (late.culprit_ranks, late.cause, late.site) == ((2,), Cause.SLOW_RANK, "train.py:31")
    assert found.conclude(job(SLOW)) == (), "it is said once"
    (late,) = watch(SAMPLED).conclude(job(SLOW))
    assert (late.culprit_ranks, late.site) == ((2,), None), "of lines nothing was sampled"
    assert watch(SAMPLED).conclude(job(EVEN)) == ()


def test_a_rank_that_does_the_same_more_slowly_has_no_line():
    same = {
        pid: LineShares(counts={"train.py:20": number}, num_samples=150) for pid, number in ((1002, 128), (1001, 120))
    }
    (found,) = said(SLOW, same)
    assert found.site is None
    assert found.evidence[-1] == "no line of its program makes up the difference: it does the same, slower"


def test_a_rank_that_is_waited_for_at_times_is_a_warning_in_these_words():
    rows = {**EVEN, 1: [50.0 + 120.0 * (i % 5 == 4) for i in range(40)], 0: [50.0] * 40, 2: [50.0] * 40, 3: [50.0] * 40}
    (found,) = said(rows, SAMPLED)
    assert (found.code, found.cause, found.culprit_ranks) == ("H141", Cause.SLOW_PERIODIC, (1,))
    assert found.message == "rank 1 is waited for every 5 steps: 120 ms each time, 12.0% of all"


@pytest.mark.parametrize(
    "own_ms",
    [
        EVEN,
        {rank: [150.0 + 40.0 * (i >= 20) for i in range(40)] for rank in range(4)},
        {**EVEN, 0: [199.0 if i == 30 else 150.0 for i in range(40)]},
        {**EVEN, 0: [154.0 if i % 10 == 0 else 150.0 for i in range(40)]},
    ],
    ids=["even", "all slow down", "one slow step", "a line of a log"],
)
def test_a_job_without_a_straggler_is_not_worth_a_word(own_ms):
    assert said(own_ms, SAMPLED) == ()


def test_it_is_said_once_and_taken_back_when_it_holds_no_more():
    found = watch(SAMPLED)
    for now_s in (10.0, 15.0):
        new, _ = found.poll(job(SLOW), now_s=now_s)
    assert len(new) == 1
    assert found.poll(job(SLOW), now_s=20.0) == ((), ())
    longer = {rank: [*values, *[150.0] * 200] for rank, values in SLOW.items()}
    assert found.poll(job(longer), now_s=25.0) == ((), ())
    new, gone = found.poll(job(longer), now_s=26.0 + FORGET_S)
    assert (new, [each.code for each in gone]) == ((), ["H140"])


def test_stages_that_make_other_calls_are_not_compared():
    other = Collective(op=CollectiveOp.BROADCAST, group=Group(ranks=(1, 3), index=1))
    rows = job({0: [100.0] * 40, 2: [100.0] * 40, 1: [150.0] * 40, 3: [150.0] * 40})
    for rank in (1, 3):
        more = tuple(
            Event(rank=rank, lane=MAIN, position=1000 + e.position, body=other,
                  issued_ns=e.issued_ns - 3 * MS, completed_ns=e.issued_ns - 2 * MS)
            for e in rows[rank].events
        )  # fmt: skip
        both = sorted((*rows[rank].events, *more), key=lambda e: e.issued_ns)
        rows[rank] = view(rank, both)
    found = watch(SAMPLED)
    assert [found.poll(rows, now_s=now_s)[0] for now_s in (10.0, 15.0)] == [(), ()]


def test_below_ddp_backward_and_the_broadcast_of_buffers_count_as_waiting():
    counts = {WORLD: GroupCount(issued=0, completed=0, p2p_issued=0, p2p_completed=0, sequence=9, moved_ns=None)}
    marks = []
    for step in range(3):
        begin = 200 * step * MS
        for kind, low, high in (
            (MarkKind.BUFFERS, 10, 30),
            (MarkKind.FORWARD, 30, 110),
            (MarkKind.BACKWARD, 120, 190),
            (MarkKind.STEP, 0, 200),
        ):
            marks.append(
                Mark(number=len(marks) + 1, kind=kind, step=step, name=None, site=Site(file="t.py", line=1), thread=0,
                     began_ns=begin + low * MS, ended_ns=begin + high * MS)
            )  # fmt: skip
    times = own_times(view(0, [], marks=tuple(marks), groups=counts))
    assert times.is_by_step
    assert [(step.number, round(step.own_s, 3), round(step.length_s, 3)) for step in times.steps] == [
        (0, 0.11, 0.2), (1, 0.11, 0.2), (2, 0.11, 0.2),
    ]  # fmt: skip


def test_steps_of_whose_calls_a_view_tells_nothing_are_left_out():
    """Marks reach further back than the calls that were read."""
    marks = tuple(
        Mark(number=step + 1, kind=MarkKind.STEP, step=step, name=None, site=None, thread=0,
             began_ns=200 * step * MS, ended_ns=200 * (step + 1) * MS)
        for step in range(30)
    )  # fmt: skip
    late = calls(0, [150.0] * 10, first=21)
    times = own_times(view(0, late, marks=marks))
    assert [step.number for step in times.steps] == list(range(21, 30))
    assert {round(step.own_s, 3) for step in times.steps} == {0.15}
    assert [step.number for step in own_times(view(0, late, marks=marks), after=27).steps] == [28, 29]


RAW = """\
thread (77): MainThread;<module> (/job/train.py:9);step (/job/train.py:31) 12
thread (77): MainThread;step (/job/train.py:20);all_reduce (/x/site-packages/torch/distributed/distributed_c10d.py:9) 30
thread (78): emberward-heart;run (/job/other.py:2) 42
not a row
"""


def test_samples_are_of_the_main_thread_and_outside_of_calls():
    assert line_shares(RAW, pid=77, line_of=no_text) == LineShares(counts={"train.py:31": 12}, num_samples=42)
    assert line_shares("", pid=77, line_of=no_text).num_samples == 0


def test_a_line_must_make_up_what_the_rank_is_late_by():
    late = LineShares(counts={"a.py:1": 100, "a.py:2": 5}, num_samples=150)
    peer = LineShares(counts={"a.py:1": 100}, num_samples=150)
    assert odd_line(late, peer, share=0.05) == "a.py:2"
    assert odd_line(late, peer, share=0.3) is None
    assert odd_line(late, LineShares(counts={}, num_samples=0), share=0.05) is None
    noisy = LineShares(counts={"a.py:1": 80}, num_samples=150)
    assert odd_line(late, noisy, share=0.05) == "a.py:2", "not the shared line, though more samples fell on it"


# -- versions and code -------------------------------------------------------------------------------------------------

SAME = {"python": "3.11.7", "torch": "2.13.0", "file train.py": "aa", TOLD: "yes"}
HOSTS = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}


def test_a_rank_with_another_version_or_code_is_a_warning_in_these_words():
    facts = {rank: dict(SAME) for rank in range(4)}
    facts[3] |= {"torch": "2.12.1", "file train.py": "bb"}
    (found,) = skew_findings(facts, HOSTS)
    assert (found.code, found.severity, found.cause) == ("H142", Severity.WARNING, Cause.VERSION_SKEW)
    assert (found.culprit_ranks, found.hosts) == ((3,), ("n2",))
    assert found.message == "rank 3 runs something else than its peers: file train.py, torch"
    assert found.evidence == (
        "file train.py: aa on ranks 0, 1, 2; bb on rank 3",
        "torch: 2.13.0 on ranks 0, 1, 2; 2.12.1 on rank 3",
    )


def test_without_a_majority_nobody_is_named():
    facts = {rank: SAME | {"torch": "2.13.0" if rank < 2 else "2.12.1"} for rank in range(4)}
    (found,) = skew_findings(facts, HOSTS)
    assert (found.culprit_ranks, found.hosts) == ((), ("n1", "n2"))
    assert found.message == "ranks 0-3 do not run the same: torch"


def test_what_only_some_ranks_load_is_no_skew():
    facts = {rank: dict(SAME) for rank in range(4)}
    facts[0] |= {"package wandb": "0.20", "file log_writer": "cc"}
    assert skew_findings(facts, HOSTS) == ()


def test_ranks_are_compared_once_they_have_told_all():
    def rings(*told: int):
        return {
            rank: view(rank, [], facts=SAME | {"torch": str(rank)} if rank in told else {"torch": "early"})
            for rank in range(2)
        }

    found = SkewWatch()
    assert [found.poll(rings(*told)) for told in ((), (0,), (0,), (0, 1))] == [(), (), (), ()]
    assert [each.code for each in found.poll(rings(0, 1))] == ["H142"]
    assert found.poll(rings(0, 1)) == (), "it is said once"
