"""Buffers of a pipeline: live by the judge, full by the timeline, and the least that are both."""

from dataclasses import replace

import pytest
from unit.plan.timed_program import TimedProgram

from emberward.findings import ConfigError
from emberward.match import check, explain, prove_periodic, prove_steps
from emberward.perf import Part, Slot, run_schedule
from emberward.plan import (
    Action,
    BufferKind,
    Pipe,
    Schedule,
    Work,
    buffered_trace,
    dualpipe_v,
    forward_only,
    gpipe,
    interleaved,
    one_f_one_b,
    plan_buffers,
    schedule_from_csv,
    zb_h1,
    zb_v,
)
from emberward.report import slots_of
from emberward.testing import oneflow_swin

FORWARD_S, BACKWARD_S = 4.0, 8.0
TRANSFERS_S = (0.0, 1.0, 3.0, 4.0)
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


@pytest.fixture(params=GRID, ids=name_of)
def schedule(request) -> Schedule:
    return request.param


def trace_of(schedule: Schedule):
    return buffered_trace(schedule, Pipe.over(range(schedule.num_ranks)))


def is_safe(trace) -> bool:
    return check(trace, with_cure=False, with_hazards=False).is_safe


def unbounded(schedule: Schedule, transfer_s: float) -> dict[Action, float]:
    """When each compute ends if nothing bounds what is received or kept, by `perf`."""
    timeline = run_schedule(
        slots_of(schedule),
        cost_s=lambda slot: BACKWARD_S if slot.part is Part.BACKWARD else FORWARD_S,
        transfer_s=lambda _: transfer_s,
        is_blocking=False,
    )
    return {
        action: timeline.end_s[Slot(action.stage, Part(action.work.value), action.mb)]
        for order in schedule.orders
        for action in order
    }


def test_the_planned_buffers_are_live_and_one_less_of_any_is_not(schedule):
    trace = trace_of(schedule)
    assert is_safe(trace)
    assert prove_steps(trace).is_proved
    for key, count in trace.credits.items():
        if count > 1:
            assert not is_safe(replace(trace, credits={**trace.credits, key: count - 1})), key


@pytest.mark.parametrize("transfer_s", TRANSFERS_S)
def test_the_planned_buffers_are_full_no_compute_is_later_than_without_bounds(schedule, transfer_s):
    run = TimedProgram(
        trace_of(schedule), cost=lambda name: BACKWARD_S if "B" in name else FORWARD_S, transfer=transfer_s
    )
    assert run.is_over
    assert run.ends == {str(action): end for action, end in unbounded(schedule, transfer_s).items()}


def test_no_fewer_leaving_buffers_are_full(schedule):
    """What has left when a compute starts that is not late is a bound from below: the plan reaches it."""
    planned = {(b.stage, b.work): b.count for b in plan_buffers(schedule) if b.kind is BufferKind.LEAVING}
    found = dict.fromkeys(planned, 0)
    for transfer_s in (0.0, 1.0, 2.0, 4.0):
        ends = unbounded(schedule, transfer_s)
        for key, count in _leaving(schedule, ends, transfer_s).items():
            found[key] = max(found[key], count)
    assert found == planned


def _leaving(schedule: Schedule, ends: dict[Action, float], transfer_s: float) -> dict[tuple[int, Work], int]:
    has_backward = any(action.work is not Work.FORWARD for order in schedule.orders for action in order)
    posted = {}
    for order in schedule.orders:
        posted |= dict(zip(order, [0.0, 0.0, *(ends[action] for action in order)], strict=False))
    most: dict[tuple[int, Work], int] = {}
    for rank, order in enumerate(schedule.orders):
        made: dict[tuple[int, Work], list[float]] = {}
        for action in order:
            target = schedule.target(action)
            is_kept = action.work is Work.FORWARD and has_backward
            if target is None or schedule.rank_of(target.stage) == rank or is_kept:
                continue
            key = (action.stage, action.work)
            start = ends[action] - (BACKWARD_S if action.work is Work.BACKWARD else FORWARD_S)
            held = [gone for gone in made.setdefault(key, []) if gone > start]
            made[key] = [*held, max(ends[action], posted[target]) + transfer_s]
            most[key] = max(most.get(key, 0), len(made[key]))
    return most


def test_the_numbers_of_1f1b_are_those_of_the_paper():
    """Stage s of p keeps p - s micro-batches (Narayanan et al. 2021, section 2.2)."""
    kept = [b.count for b in plan_buffers(one_f_one_b(4, 8)) if b.kind is BufferKind.KEPT]
    assert kept == [4, 3, 2, 1]
    assert [b.count for b in plan_buffers(gpipe(4, 8)) if b.kind is BufferKind.KEPT] == [8, 8, 8, 8]


@pytest.mark.parametrize("pp", [2, 3, 4])
def test_the_buffers_of_1f1b_are_proved_for_every_number_of_micro_batches(pp):
    proof = prove_periodic(lambda n: buffered_trace(one_f_one_b(pp, n), Pipe.over(range(pp))), first=1, up_to=24)
    assert proof.is_proved, proof.reason


def test_a_credit_of_one_as_in_seed_0_is_not_live_and_the_cure_is_what_was_planned():
    schedule = one_f_one_b(2, 4)
    trace = trace_of(schedule)
    assert trace.credits[(0, "kept 0")] == 2
    text = explain(check(replace(trace, credits={**trace.credits, (0, "kept 0"): 1})))
    assert text.startswith("M104 deadlock: rank 0 waits for itself")
    assert "rank 0: forward 2 waits for backward 1" in text
    assert "next      raise credit kept 0 of rank 0 from 1 to 2   (judged: this passes)" in text


def test_oneflows_placement_hangs_with_its_credit_and_is_proved_with_the_planned_one():
    """The backward's buffer on the forward's lane and a repeat credit of 1: libai#232. Stage 0 of 2 keeps 2."""
    (planned,) = (b.count for b in plan_buffers(one_f_one_b(2, 4)) if b.credit == "kept 0")

    def swin(credit: int):
        return lambda n: oneflow_swin(is_buffer_on_forward=True, num_micro_batches=n, repeat_credit=credit)

    assert prove_periodic(swin(1), first=1).failing == 3
    assert prove_periodic(swin(planned), first=1).is_proved
    assert planned == 2


def test_orders_that_wait_for_each_other_are_refused_with_the_ring():
    text = "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"
    ring = schedule_from_csv(text, name="ring")
    with pytest.raises(ConfigError) as caught:
        plan_buffers(ring)
    assert caught.value.text() == (
        "C109 schedule ring: the ranks wait for each other\n"
        "  where     rank 0 at 0B0\n"
        "  expected  an order in which each compute comes after those whose results it needs\n"
        "  found     rank 0 at 0B0; rank 1 at 1F1\n"
        "  next      move the first compute of a stage in front of those that wait for it"
    )
