"""One order of all calls on every device: built into programs, found where it exists, and refused where it does not."""

import random
from dataclasses import replace

import pytest
from unit.plan.timed_program import TimedProgram

from emberward.events import Collective, CollectiveOp, Group, Lane, LaneKind, Observer, ReduceOp, TraceBuilder
from emberward.match import check, explain_finding
from emberward.perf import Part, run_schedule
from emberward.plan import (
    Launches,
    Pipe,
    Schedule,
    buffered_trace,
    device_order,
    dualpipe_v,
    forward_only,
    gpipe,
    interleaved,
    one_f_one_b,
    pipeline_trace,
    schedule_from_csv,
    strays,
    zb_h1,
    zb_v,
)
from emberward.recipe import launches_of, load_recipe
from emberward.report import order_finding, order_line, order_of, slots_of

GRID = [
    *(one_f_one_b(pp, mb) for pp, mb in ((2, 1), (2, 4), (3, 8), (4, 4), (4, 8))),
    *(gpipe(pp, mb, chunks) for pp, mb, chunks in ((2, 4, 1), (4, 3, 1), (2, 8, 2), (3, 8, 2))),
    *(interleaved(pp, mb, chunks) for pp, mb, chunks in ((2, 2, 2), (2, 4, 3), (4, 8, 2), (3, 6, 2))),
    *(forward_only(gpipe(pp, mb, chunks), mb) for pp, mb, chunks in ((4, 8, 1), (2, 8, 2))),
    *(zb_h1(pp, mb, chunks) for pp, mb, chunks in ((2, 4, 1), (4, 8, 1), (3, 6, 2), (4, 6, 1))),
    *(zb_v(pp, mb) for pp, mb in ((2, 2), (2, 4), (3, 8), (4, 8))),
    *(dualpipe_v(pp, mb) for pp, mb in ((2, 4), (3, 7), (4, 10))),
]


def name_of(schedule: Schedule) -> str:
    return f"{schedule.name} {schedule.num_ranks}x{schedule.num_stages // schedule.num_ranks} {schedule.num_mb}mb"


def pipe_of(schedule: Schedule) -> Pipe:
    return Pipe.over(range(schedule.num_ranks))


@pytest.mark.parametrize("schedule", GRID, ids=name_of)
def test_programs_for_devices_have_one_order_end_and_need_every_buffer(schedule):
    trace = buffered_trace(schedule, pipe_of(schedule), launches=Launches.ONE_ORDER)
    order = order_of(trace.events, has_transfers=True)
    assert order.exists and order.num_calls == len(order.calls)
    assert check(trace, with_cure=False, with_hazards=False).is_safe
    for key, count in trace.credits.items():
        if count > 1:
            less = replace(trace, credits={**trace.credits, key: count - 1})
            assert not check(less, with_cure=False, with_hazards=False).is_safe, key


@pytest.mark.parametrize(("transfer_s", "most"), [(0.0, 1.0), (0.4, 1.01), (1.0, 1.02)])
@pytest.mark.parametrize(
    "schedule", [one_f_one_b(4, 8), interleaved(4, 8, 2), forward_only(gpipe(4, 8), 8)], ids=name_of
)
def test_the_order_costs_no_more_than_the_page_says(schedule, transfer_s, most):
    """Against transfers without bound, for transfers of 0, a tenth and a quarter of a forward."""
    trace = pipeline_trace(schedule, pipe_of(schedule), launches=Launches.ONE_ORDER)
    run = TimedProgram(trace, cost=lambda name: 8.0 if "B" in name else 4.0, transfer=transfer_s)
    best = run_schedule(
        slots_of(schedule),
        cost_s=lambda slot: 8.0 if slot.part is Part.BACKWARD else 4.0,
        transfer_s=lambda _: transfer_s,
        is_blocking=False,
    )
    assert run.is_over
    assert max(run.ends.values()) <= most * best.seconds


def test_receives_that_are_posted_early_have_no_order_and_are_named():
    """Right on gloo and for each channel alone; two ranks that exchange each receive first."""
    trace = pipeline_trace(one_f_one_b(2, 4), pipe_of(one_f_one_b(2, 4)))
    assert check(trace).findings == ()
    order = order_of(trace.events, has_transfers=True)
    finding = order_finding(order)
    assert finding is not None and finding.severity == "warning"
    assert explain_finding(finding) == (
        "M113 order hazard: ranks 1 and 0 launch calls that share devices in opposite orders       [warning, proved]\n"
        "  rank 1 launches pp_down call 1 from 0 to 1 before pp_up call 0 from 1 to 0\n"
        "  rank 0 launches pp_up call 0 from 1 to 0 before pp_down call 1 from 0 to 1, "
        "be it through calls between them\n"
        "  hazard, not certain: each communicator by itself is right, and devices that run both at once go on\n"
        "  next      launch them in one order on all ranks; Emberward's own schedules do with device=cuda or auto"
    )
    assert order_line(order, has_transfers=True) == (
        "one order of 8 collectives and transfers over 2 communicators on every device: no (M113)"
    )


def test_the_same_schedule_launched_in_one_order_is_not():
    schedule = one_f_one_b(2, 4)
    trace = pipeline_trace(schedule, pipe_of(schedule), launches=Launches.ONE_ORDER)
    order = order_of(trace.events, has_transfers=True)
    assert order_finding(order) is None
    assert order_line(order, has_transfers=True) == (
        "one order of 8 collectives and transfers over 2 communicators on every device: yes"
    )


def test_a_schedule_of_ones_own_gets_an_order_too():
    text = "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1B0,1B1,1F2,1B2\n"
    trace = pipeline_trace(schedule_from_csv(text), Pipe.over((0, 1)), launches=Launches.ONE_ORDER)
    assert device_order(trace.events, has_transfers=True).exists
    assert check(trace).is_safe


def test_ranks_launch_in_one_order_wherever_they_may_run_on_devices():
    found = {
        each: launches_of(load_recipe("bloom_tiny", [f"device={each}"]).recipe) for each in ("cpu", "cuda", "auto")
    }
    assert found == {"cpu": Launches.EARLY, "cuda": Launches.ONE_ORDER, "auto": Launches.ONE_ORDER}


def programs_of(orders: dict[int, list[Group]]):
    builder = TraceBuilder(max(orders) + 1, Observer.DRY_RUN)
    for rank, groups in orders.items():
        for group in groups:
            lane = Lane(kind=LaneKind.COMM, index=group.index)
            call = Collective(op=CollectiveOp.ALL_REDUCE, group=group, dtype="int8", numel=1, reduce_op=ReduceOp.SUM)
            builder.add(rank, lane, call)
    return builder.build()


def test_the_order_agrees_with_the_judge_on_random_programs():
    rng = random.Random(7)
    num_without = 0
    for _ in range(150):
        groups = [Group(ranks=tuple(sorted(rng.sample(range(4), rng.randint(2, 4)))), index=i) for i in range(3)]
        calls = [rng.choice(groups) for _ in range(8)]
        orders = {rank: [group for group in calls if rank in group.ranks] for rank in range(4)}
        swapped = orders[rng.randrange(4)]
        if len(swapped) > 1:
            at = rng.randrange(len(swapped) - 1)
            swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
        trace = programs_of(orders)
        order = device_order(trace.events)
        judged = any(finding.code == "M107" for finding in check(trace, with_cure=False).findings)
        assert order.exists is not judged
        num_without += judged
        assert not order.exists or not strays(trace.events, order)
    assert 20 < num_without < 130


def test_a_rank_that_leaves_the_order_or_makes_a_call_of_its_own_does_not_follow():
    first, second = Group(ranks=(0, 1), index=0), Group(ranks=(0, 1), index=1)
    order = device_order(programs_of({0: [first, second], 1: [first, second]}).events)
    assert strays(programs_of({0: [first, second]}).events, order) == []
    assert strays(programs_of({0: [second, first]}).events, order) == [0]
    assert strays(programs_of({0: [first, second, second]}).events, order) == [0]
