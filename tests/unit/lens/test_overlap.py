"""Exposed collectives by cause: calls and lines that are written down here, each beside a twin that hides the call."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from emberward.events import (
    Barrier,
    Collective,
    CollectiveOp,
    Event,
    Group,
    Lane,
    LaneKind,
    Recv,
    Ref,
    Send,
    Site,
    Wait,
)
from emberward.findings import Cause
from emberward.lens import (
    FIRST_LANE,
    STEPS,
    Call,
    RankCalls,
    RankTimeline,
    Replay,
    Sources,
    Span,
    audit,
    calls_of,
    operations_of,
    profile_of,
    samples_of,
    timeline,
)
from emberward.lens._calls import OF_BACKWARD
from emberward.lens._samples import Instruction, Sampled

MS = 1_000_000
STEP_MS = 100
NUM = 10
WORLD = Group(ranks=(0, 1), index=0)
COMM = Lane(kind=LaneKind.COMM)
HOST = Lane(kind=LaneKind.HOST)
FILE = "train.py"
EARLY = """for step in range(9):
    work = all_reduce(grad)
    work.wait()
    compute()
    use(grad)
"""
LATE = """for step in range(9):
    make(grad)
    compute()
    work = all_reduce(grad)
    work.wait()
"""
UNKNOWN = """for step in range(9):
    compute()
    work = all_reduce(grad)
    work.wait()
    optimizer.step()
"""


def samples(rank, *, lines, queue_ms=0):
    """A rank that spends `lines` (line -> ms a step) in each of NUM steps.

    At the line -N it waits in an operation of the program's inside the backward that line N asks for.
    """
    places = [{"place": [FILE, "<module>", 1, "user", abs(line), abs(line), 0, 1, "CALL"]} for line in lines]
    engine, operation = len(places), len(places) + 1
    places.append({"place": ["/torch/autograd/graph.py", "_engine_run_backward", 1, "platform", 9, 9, 0, 1, "CALL"]})
    places.append({"place": ["kernels.py", "backward", 1, "user", 7, 7, 0, 1, "CALL"]})
    stacks = [
        {
            "stack": [i] if line > 0 else [operation, engine, i],
            "flag": "",
            "steps": {step: [ms * MS, ms * MS if line > 0 else 0] for step in range(NUM)},
        }
        for i, (line, ms) in enumerate(lines.items())
    ]
    head = {
        "form": 1, "pid": rank, "warmup": 0, "is_last": True, "period_ns": 2 * MS, "first_step": 0,
        "bounds_ns": [k * STEP_MS * MS for k in range(NUM + 1)], "queue_ns": queue_ms * MS * NUM, "has_cpu_time": True,
        "loop": [[FILE, "<module>", 1]], "outputs": [], "rank": rank, "world_size": 2, "device": "cpu",
    }  # fmt: skip
    return samples_of([head, *places, *stacks, {"end": True}])


def calls(rank, plan, *, wait_line, line, numel=1_000_000):
    """`plan`: (issued, blocked from, free) in ms of each call of a step, or a function of the step that gives them."""
    events, sequences = [], {}
    for step in range(NUM):
        for issued, blocked, free in plan(step) if callable(plan) else plan:
            at = step * STEP_MS * MS
            position = len(sequences)
            call = Event(
                rank=rank,
                lane=COMM,
                position=position,
                body=Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=numel),
                site=Site(file=FILE, line=line),
                issued_ns=at + int(issued * MS),
                completed_ns=at + int(free * MS),
            )
            wait = Event(
                rank=rank,
                lane=HOST,
                position=position,
                body=Wait(on=Ref(lane=COMM, position=position)),
                site=Site(file=FILE, line=wait_line),
                issued_ns=at + int(blocked * MS),
                completed_ns=at + int(free * MS),
            )
            events += [call, wait]
            sequences[call.ref] = position + 1
    return RankCalls(rank=rank, events=tuple(events), sequences=sequences)


def found(text, plans, *, wait_line, line, lines, numel=1_000_000, queues=(0, 0), slack_ms=(0, 0)):
    """`slack_ms`: by how much the calls of a step could be issued earlier and waited for later."""
    ranks = [calls(rank, plan, wait_line=wait_line, line=line, numel=numel) for rank, plan in enumerate(plans)]
    each = lines if isinstance(lines, list) else [lines, lines]
    both = [samples(rank, lines=each[rank], queue_ms=queues[rank]) for rank in (0, 1)]
    slack = {rank: {(FILE, line): (tuple(ms / 1000 for ms in slack_ms),)} for rank in (0, 1)}
    return audit(ranks, both, Sources(lambda file: text if file == FILE else ""), slack=slack), both


def causes(seen):
    overlap, both = seen
    replay = Replay(overlap.met, both)
    return [
        (each.cause, each.site, round(1000 * each.cost_s, 1), round(1000 * replay.without(each), 1))
        for each in overlap.found
    ]


def test_a_wait_before_its_time_is_named_with_what_later_lines_could_hide():
    seen = found(EARLY, [[(10, 11, 41)]] * 2, wait_line=3, line=2, lines={4: 20, 3: 30}, slack_ms=(1, 20))
    assert causes(seen) == [(Cause.EARLY_WAIT, "train.py:3", 30, 20)]
    assert seen[0].exposed_s == pytest.approx({0: 0.03, 1: 0.03})


def test_a_call_that_could_have_been_issued_earlier_is_named():
    seen = found(LATE, [[(30, 31, 61)]] * 2, wait_line=5, line=4, lines={3: 25, 5: 30}, slack_ms=(25, 0))
    assert causes(seen) == [(Cause.LATE_ISSUE, "train.py:4", 30, 25)]


def test_a_call_that_all_ranks_could_issue_before_what_makes_one_of_them_late_gains_the_wait_for_it():
    # Rank 1 is late in the first call of each step, rank 0 in the second.
    in_turn = [[(10, 10, 31), (81, 81, 82)], [(30, 30, 31), (61, 61, 82)]]
    for slack_ms, wanted in ((25, [(Cause.LATE_ISSUE, "train.py:4", 21, 21)]), (0, [])):
        seen = found(LATE, in_turn, wait_line=5, line=4, lines={3: 40, 5: 40}, slack_ms=(slack_ms, 0))
        assert causes(seen) == wanted


def test_ranks_that_wait_for_each_other_in_turn_lose_more_than_each_of_them_waits():
    def plan(rank):
        return lambda step: [(50, 50, 51)] if step % 2 == rank else [(30, 30, 51)]

    seen = found(EARLY, [plan(0), plan(1)], wait_line=3, line=2, lines={4: 49, 3: 11}, slack_ms=(0, 45))
    ((cause, site, cost_ms, gain_ms),) = causes(seen)
    assert (cause, site) == (Cause.EARLY_WAIT, "train.py:3")
    assert cost_ms == 21
    assert gain_ms == pytest.approx(10, abs=1.5)  # A rank waits in every second step, 21 ms, and not at the end.


@pytest.mark.parametrize(
    ("cores", "load", "gain_ms"), [(2, 4_000_000, 13), (2, 8_000_000, 19), (4, 4_000_000, 25), (0, 4_000_000, 25)]
)
def test_where_the_ranks_compute_on_all_processors_a_transfer_takes_them_wherever_it_stands(cores, load, gain_ms):
    _, both = found(LATE, [[(30, 31, 61)]] * 2, wait_line=5, line=4, lines={3: 25, 5: 30}, slack_ms=(25, 0))
    busy = [replace(each, others_s=0.012 * NUM, cores=cores) for each in both]
    ranks = [calls(rank, [(30, 31, 61)], wait_line=5, line=4) for rank in (0, 1)]
    slack = {rank: {(FILE, 4): ((0.025, 0.0),)} for rank in (0, 1)}
    loads = {rank: load + (64 << 10) for rank in (0, 1)}
    overlap = audit(ranks, busy, Sources(lambda file: LATE), slack=slack, loads=loads)
    (late,) = overlap.found
    assert round(1000 * Replay(overlap.met, busy).without(late)) == gain_ms


def test_a_transfer_that_nothing_could_hide_that_is_hidden_or_that_another_asks_for_is_not_accused():
    assert causes(found(LATE, [[(30, 31, 61)]] * 2, wait_line=5, line=4, lines={3: 25, 5: 30})) == []
    hidden = [[(10, 40, 40.2)]] * 2
    assert causes(found(EARLY, hidden, wait_line=3, line=2, lines={4: 20, 3: 30}, slack_ms=(0, 20))) == []
    asked = EARLY.replace("work = all_reduce(grad)", "loss.backward()")
    assert causes(found(asked, [[(10, 11, 41)]] * 2, wait_line=3, line=2, lines={4: 20}, slack_ms=(0, 20))) == []


BEHIND = """for step in range(9):
    compute()
    works = [all_reduce(part) for part in parts]
    all_reduce(flag)
"""


def test_a_call_that_blocks_behind_another_of_its_group_is_named_and_one_alone_is_not():
    def told(first_ms):
        ranks = [calls(rank, [(first_ms, 95, 95.1)], wait_line=2, line=3) for rank in (0, 1)]
        both = [
            RankCalls(
                rank=rank.rank,
                events=tuple(each for event in rank.events for each in (event, *blocking(event, first_ms))),
                sequences={ref: 2 * number for ref, number in rank.sequences.items()}
                | {
                    Ref(lane=HOST, position=1000 + ref.position): 2 * n + (1 if first_ms < 31 else -1)
                    for ref, n in rank.sequences.items()
                },
            )
            for rank in ranks
        ]
        seen = [samples(rank, lines={2: 50}) for rank in (0, 1)]
        return causes((audit(both, seen, Sources(lambda file: BEHIND)), seen))

    def blocking(event, first_ms):
        """A sum of one number at 31 ms of the step, which ends at 60 where it stands behind the other."""
        if event.lane != COMM:
            return
        at = event.issued_ns - int(first_ms * MS)
        yield Event(
            rank=event.rank, lane=HOST, position=1000 + event.position, site=Site(file=FILE, line=4),
            body=Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=1),
            issued_ns=at + 31 * MS, completed_ns=at + (60 if first_ms < 31 else 32) * MS,
        )  # fmt: skip

    assert told(30) == [(Cause.SAME_LANE, "train.py:4", 29, 29)]
    assert told(70) == []


RECEIVE = """def rear():
    coming = irecv(x, 0)
    coming.wait()
    labels = read()
    use(x)
"""


def received(lines, slack_ms):
    """Rank 0 sends at 40 ms of each step; rank 1 receives from 0 ms on, waits for it, and works."""
    both = []
    for rank in (0, 1):
        body = Recv(peer=0, group=WORLD, numel=1000) if rank else Send(peer=1, group=WORLD, numel=1000)
        events = []
        for k in range(NUM):
            at, begin, end = k * STEP_MS * MS, (0 if rank else 40) * MS, 41 * MS
            ref = Ref(lane=COMM, position=k)
            events.append(
                Event(rank=rank, lane=COMM, position=k, body=body, site=Site(file=FILE, line=2 if rank else 9),
                      issued_ns=at + begin, completed_ns=at + end)
            )  # fmt: skip
            events.append(
                Event(rank=rank, lane=HOST, position=k, body=Wait(on=ref), site=Site(file=FILE, line=3 if rank else 9),
                      issued_ns=at + begin, completed_ns=at + end)
            )  # fmt: skip
        sequences = {Ref(lane=COMM, position=k): k + 1 for k in range(NUM)}
        both.append(RankCalls(rank=rank, events=tuple(events), sequences=sequences))
    seen = [samples(0, lines={8: 40}), samples(1, lines=lines)]
    slack = {1: {(FILE, 2): ((0.0, slack_ms / 1000),)}}
    overlap = audit(both, seen, Sources(lambda file: RECEIVE), slack=slack)
    assert overlap.calls_per_step == 0 and overlap.waits_s == {}
    return [(each.cause, each.site, round(1000 * each.cost_s, 1), each.ranks) for each in overlap.found]


def test_a_receive_that_is_waited_for_before_work_that_needs_nothing_of_it_is_named():
    assert received({4: 30, 5: 20}, 30) == [(Cause.EARLY_WAIT, "train.py:3", 30, (1,))]
    assert received({4: 30, 5: 20}, 0) == []


def test_a_barrier_in_which_ranks_wait_for_each_other_in_turn_is_named_where_nothing_else_makes_them_meet():
    def told(*, meets):
        both, seen = [], []
        for rank in (0, 1):
            events, sequences = [], {}
            for step in range(NUM):
                late = step % 2 == rank
                at, came = step * STEP_MS, 80 if late else 40
                bodies = [(Barrier(group=WORLD), came, 81, 3)]
                if meets:
                    total = Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=1)
                    bodies.append((total, 82, 83, 4))
                for body, begin, end, line in bodies:
                    ref = Ref(lane=HOST, position=len(events))
                    events.append(
                        Event(rank=rank, lane=HOST, position=ref.position, body=body, site=Site(file=FILE, line=line),
                              issued_ns=(at + begin) * MS, completed_ns=(at + end) * MS)
                    )  # fmt: skip
                    sequences[ref] = len(events)
            both.append(RankCalls(rank=rank, events=tuple(events), sequences=sequences))
            seen.append(samples(rank, lines={2: 60}))
        overlap = audit(both, seen, Sources(lambda file: "for step in s:\n  work()\n  barrier()\n  all_reduce(x)\n"))
        replay = Replay(overlap.met, seen)
        return [(each.cause, each.site, round(1000 * replay.without(each))) for each in overlap.found]

    assert told(meets=False) == [(Cause.SYNCHRONIZE, "train.py:3", 21)]  # With the barrier itself.
    assert [each for each in told(meets=True) if each[2] >= 3] == []


def test_many_small_calls_are_named_and_one_is_not():
    many = [(10 + 2 * k, 10 + 2 * k, 11.5 + 2 * k) for k in range(20)]
    seen = found(UNKNOWN, [many] * 2, wait_line=3, line=3, lines={3: 30}, numel=100)
    assert causes(seen) == [(Cause.TINY_MESSAGES, "train.py:3", 30, 28.5)]
    assert causes(found(UNKNOWN, [many] * 2, wait_line=3, line=3, lines={3: 30}, numel=10_000_000)) == []
    assert causes(found(UNKNOWN, [many[:1]] * 2, wait_line=3, line=3, lines={3: 30}, numel=100)) == []


def test_the_start_of_small_calls_is_that_of_all_of_them_and_not_of_the_smallest():
    many = [(10 + 2 * k, 10 + 2 * k, 11.5 + 2 * k) for k in range(20)]
    last = [(51, 52, 52.1)]  # it had ended when it was waited for

    def with_a_smaller_one(rank):
        events = [
            replace(each, body=replace(each.body, numel=10))
            if isinstance(each.body, Collective) and each.position % 21 == 20
            else each
            for each in calls(rank, [*many, *last], wait_line=3, line=3, numel=100).events
        ]
        return replace(calls(rank, [*many, *last], wait_line=3, line=3, numel=100), events=tuple(events))

    both = [samples(rank, lines={3: 30}) for rank in (0, 1)]
    (told,) = audit([with_a_smaller_one(rank) for rank in (0, 1)], both, Sources(lambda file: UNKNOWN)).found
    assert (told.cause, told.calls) == (Cause.TINY_MESSAGES, 21)


def test_steps_whose_calls_the_ring_has_lost_are_no_steps_without_calls():
    many = [(10 + 2 * k, 10 + 2 * k, 11.5 + 2 * k) for k in range(20)]
    ranks = [calls(rank, many, wait_line=3, line=3, numel=100) for rank in (0, 1)]
    # A call has two events: of the first six steps none is left, of the seventh a half.
    lost = [replace(rank, events=rank.events[2 * 20 * 6 + 20 :], is_complete=False) for rank in ranks]
    both = [samples(rank, lines={3: 30}) for rank in (0, 1)]

    def told(ranks):
        profile = profile_of(both, Sources(lambda file: UNKNOWN), asked_warmup=1, calls=ranks)
        (finding,) = (each for each in profile.findings if each.code == "P102")
        return finding.cause, finding.cost_ms_per_step, finding.gain_ms_per_step

    assert told(lost) == told(ranks) == (Cause.TINY_MESSAGES, pytest.approx(30), pytest.approx(28.5))


def test_a_barrier_before_each_small_call_of_a_line_is_a_start_of_its_own():
    many = [(10 + 2 * k, 10 + 2 * k, 11.5 + 2 * k) for k in range(20)]
    ranks = [calls(rank, many, wait_line=3, line=3, numel=100) for rank in (0, 1)]
    mixed = [
        replace(
            rank,
            events=tuple(
                replace(each, body=Barrier(group=WORLD))
                if isinstance(each.body, Collective) and each.position % 2 == 0
                else each
                for each in rank.events
            ),
        )
        for rank in ranks
    ]
    both = [samples(rank, lines={3: 30}) for rank in (0, 1)]
    overlap = audit(mixed, both, Sources(lambda file: UNKNOWN))
    (told,) = overlap.found
    assert (told.cause, told.site, told.calls) == (Cause.TINY_MESSAGES, "train.py:3", 20)
    assert told.cost_s == pytest.approx(0.030, rel=0.05)


def test_a_rank_that_comes_last_every_time_is_named_and_a_busy_host_is_not():
    plans = [[(10, 10, 41)], [(40, 40, 41)]]
    lines = [{3: 30}, {2: 30, 3: 1}]
    seen = found(UNKNOWN, plans, wait_line=3, line=3, lines=lines)
    assert causes(seen) == [(Cause.LATE_PEER, "train.py:2", 30, 30)]
    assert (seen[0].found[0].ranks, seen[0].found[0].waiting) == ((1,), (0,))
    assert seen[0].waits_s == pytest.approx({0: 0.03, 1: 0.0})
    assert causes(found(UNKNOWN, plans, wait_line=3, line=3, lines=lines, queues=(0, 30))) == []
    assert causes(found(UNKNOWN, plans, wait_line=3, line=3, lines={3: 30})) == []


def test_a_rank_that_computes_more_is_told_at_its_forward_and_one_that_waits_in_its_backward_alone_there():
    plans = [[(10, 10, 41)], [(40, 40, 41)]]
    # Work that both do ends in the middle once it is dealt evenly; a wait of one's own goes.
    for more, line, gain_ms in (({2: 15, -4: 25}, 2, 15), ({2: 6, -4: 34}, 4, 30)):
        seen = found(UNKNOWN, plans, wait_line=3, line=3, lines=[{3: 30, 2: 5, -4: 5}, more])
        assert causes(seen) == [(Cause.LATE_PEER, f"train.py:{line}", 30, gain_ms)]


def test_modules_that_take_longer_at_equal_processor_time_are_no_cause_and_on_a_device_they_are():
    plans = [[(10, 10, 41)], [(40, 40, 41)]]
    for busy_ms, device, wanted in ((5, "cpu", []), (35, "cpu", ["train.py:2"]), (5, "gpu", ["train.py:2"])):
        seen = found(UNKNOWN, plans, wait_line=3, line=3, lines={3: 1})
        both = [
            in_a_module(each, 2, wall_ms=wall_ms, busy_ms=min(wall_ms, busy_ms), device=device)
            for each, wall_ms in zip(seen[1], (5, 35), strict=True)
        ]
        ranks = [calls(rank, plan, wait_line=3, line=3) for rank, plan in enumerate(plans)]
        overlap = audit(ranks, both, Sources(lambda file: UNKNOWN if file == FILE else ""))
        assert [each.site for each in overlap.found if each.cause is Cause.LATE_PEER] == wanted


@pytest.mark.parametrize(
    ("later_ms", "wanted"), [((16, -4, 12, -2, 8), [(Cause.LATE_PEER, 6)]), ((9, -8, 7, -6, -2), [])]
)
def test_in_the_backward_where_looks_are_rough_a_rank_is_late_by_what_it_is_on_average(later_ms, wanted):
    both = [samples(0, lines={3: 30}), samples(1, lines={2: 6, 3: 30})]
    group = Group(ranks=(0, 1), index=OF_BACKWARD)

    def met(rank, step, at_ms):
        issued_s, ended_s = (STEP_MS * step + at_ms) / 1000, (STEP_MS * step + 80) / 1000
        return Call(
            rank=rank, lane=HOST, group=group, number=step, op="backward", num_bytes=0, issued_s=issued_s,
            ended_s=ended_s, blocked_s=issued_s, free_s=ended_s, file="", line=0, wait_line=0,
        )  # fmt: skip

    hidden = [(met(0, step, 40), met(1, step, 40 + later_ms[step % 5])) for step in range(NUM)]
    overlap = audit([], both, Sources(lambda file: UNKNOWN), hidden)
    assert [(each.cause, round(1000 * each.cost_s, 3)) for each in overlap.found] == wanted
    gains = [round(1000 * Replay(overlap.met, both).without(each)) for each in overlap.found]
    assert gains == [cost_ms for _, cost_ms in wanted]


def in_a_module(rank, line, *, wall_ms, busy_ms, device):
    """The same rank and what a line spends in a module of torch's, by the clock and on a processor."""
    leaf = Instruction("/torch/nn/modules/conv.py", "forward", 1, "platform", 9, 9, 0, 1, "CALL")
    at = Instruction(FILE, "<module>", 1, "user", line, line, 0, 1, "CALL")
    steps = {step: (wall_ms / 1000, busy_ms / 1000) for step in range(NUM)}
    more = Sampled(stack=(leaf, at), flag="", steps=steps)
    return replace(rank, stacks=(*rank.stacks, more), device=device)


def untouched(rank, *, until_ms):
    """The first step as the probe observed it: memory that is used so long after its call has ended."""
    head = {
        "form": 1, "rank": rank, "device": "cpu", "offset_ns": 0, "bounds_ns": [0, STEP_MS * MS], "threads": 1,
        "free_bytes": None, "why_short": None, "is_cut": False,
    }  # fmt: skip
    use = [(41 + until_ms) * MS, (42 + until_ms) * MS, 0, [1], [], None]
    return operations_of([head, {"issue": [int(10.5 * MS), [1], [1], None]}, {"access": use}, {"end": True}])


def test_an_exposed_collective_is_a_warning_in_these_words():
    ranks = [calls(rank, [(10, 11, 41)], wait_line=3, line=2) for rank in (0, 1)]
    both = [samples(rank, lines={4: 20, 3: 30}) for rank in (0, 1)]
    seen = [untouched(rank, until_ms=31) for rank in (0, 1)]
    (finding,) = profile_of(both, Sources(lambda file: EARLY), asked_warmup=0, calls=ranks, operations=seen).findings
    assert (finding.code, finding.message) == (
        "P102",
        "early_wait: every rank waits for a transfer before its result is needed: 30.00 ms a step, 30.0%",
    )


def test_the_timeline_has_a_track_for_each_lane_and_an_arrow_from_the_last_rank():
    plans = [[(10, 10, 41)], [(40, 40, 41)]]
    ranks = []
    for rank, plan in enumerate(plans):
        whole = calls(rank, plan, wait_line=3, line=3)
        host = [Event(rank=rank, lane=HOST, position=i, body=e.body, issued_ns=e.issued_ns, completed_ns=e.completed_ns)
                for i, e in enumerate(e for e in whole.events if e.lane == COMM)]  # fmt: skip
        sequences = {event.ref: i + 1 for i, event in enumerate(host)}
        spans = tuple(
            Span(name=f"step {k}", track=STEPS, began_ns=k * STEP_MS * MS, ended_ns=(k + 1) * STEP_MS * MS, step=k)
            for k in range(NUM)
        )
        told = RankCalls(rank=rank, events=tuple(host), sequences=sequences)
        ranks.append(RankTimeline(calls=told, spans=spans, tracks={STEPS: "steps"}))
    trace = json.loads(json.dumps(timeline(ranks)))
    events = trace["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert tracks == {(0, 0): "steps", (0, FIRST_LANE): "host0", (1, 64): "steps", (1, 64 + FIRST_LANE): "host0"}
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == 2 * NUM * 2
    starts, ends = ([e for e in events if e["ph"] == kind] for kind in "sf")
    assert [(e["pid"], e["ts"]) for e in starts[:1]] == [(1, 40_000.0)]
    assert [e["id"] for e in starts] == [e["id"] for e in ends] == list(range(1, NUM + 1))
    for arrow in (*starts, *ends):
        track = [s for s in slices if (s["pid"], s["tid"]) == (arrow["pid"], arrow["tid"])]
        assert any(s["ts"] <= arrow["ts"] <= s["ts"] + s["dur"] for s in track), "an arrow needs a slice at both ends"
    for track in tracks:
        own = sorted((s["ts"], s["ts"] + s["dur"]) for s in slices if (s["pid"], s["tid"]) == track)
        assert all(first[1] <= second[0] for first, second in pairwise(own))
    assert trace["otherData"]["clock"] == "one host's monotonic clock; no offset between ranks"


def on_a_device(rank, began_ms):
    """Calls of a device that comes to them at `began_ms` of a step and waits for them in its stream, up to 41 ms."""
    events = []
    whole = calls(rank, [(10, 11, 41)], wait_line=3, line=2)
    for event in whole.events:
        at = (event.issued_ns // (STEP_MS * MS) * STEP_MS + began_ms) * MS
        lane = Lane(kind=LaneKind.STREAM, label="device") if isinstance(event.body, Wait) else event.lane
        events.append(replace(event, lane=lane, started_ns=at))
    return RankCalls(rank=rank, events=tuple(events), sequences=whole.sequences)


def test_a_wait_of_a_devices_stream_holds_no_thread():
    held = [call.free_s - call.blocked_s for call in calls_of(calls(0, [(10, 11, 41)], wait_line=3, line=2))]
    assert held == pytest.approx([0.030] * NUM)
    assert [call.free_s - call.blocked_s for call in calls_of(on_a_device(0, 20))] == [0] * NUM


def test_the_timeline_draws_a_call_at_the_times_of_its_device():
    ranks = [RankTimeline(calls=on_a_device(rank, began), spans=(), tracks={}) for rank, began in ((0, 20), (1, 35))]
    events = timeline(ranks)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert [names[1, e["tid"]] for e in slices] == ["comm0", "device"] * NUM
    assert {(e["dur"], e["args"]["launched_us"] % (1000 * STEP_MS)) for e in slices} == {(6000.0, 0), (6000.0, 1000)}
    arrows = [e for e in events if e["ph"] == "s"]
    assert [e["pid"] for e in arrows] == [1] * NUM, "both hosts launch at once, the device of rank 1 comes last"
    assert arrows[0]["ts"] == 25_000.0, "of the first launch"
