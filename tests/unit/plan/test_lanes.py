"""Two host lanes on the first stage: the plan of the first Swin deadlock, and the repaired one."""

from dataclasses import replace

import pytest

from emberward.events import Collective, CollectiveOp, Compute, Group, Observer, ReduceOp, Trace
from emberward.findings import Cause
from emberward.match import check, explain, prove_steps
from emberward.plan import Pipe, TwoLanes, lane_credits, one_f_one_b, pipeline_program, two_lane_program
from emberward.testing import ThreadReplayer


def trace_of(schedule, *, is_fed: bool, credit: int = 1) -> Trace:
    """Two pipelines, of tp rank 0 and 1, side by side: ranks 0 and 1 hold the first stage, the others the rest."""
    events = {}
    for tp_rank in (0, 1):
        pipe = Pipe.over([tp_rank + 2 * pp for pp in range(schedule.num_ranks)])
        lanes = TwoLanes(is_fed_by_forwards=is_fed, is_odd=tp_rank == 1)
        events[tp_rank] = with_collectives(two_lane_program(schedule, pipe, lanes))
        for pp in range(1, schedule.num_ranks):
            events[pipe.ranks[pp]] = pipeline_program(schedule, pipe, pp)
    credits = {(None, name): capacity for name, capacity in lane_credits(credit).items()}
    return Trace(world_size=2 * schedule.num_ranks, events=events, observer=Observer.PLAN, credits=credits)


def with_collectives(program):
    """Each compute as the collective that its tensor-parallel layers make, over a group for each lane."""
    return tuple(
        replace(
            event,
            body=Collective(
                op=CollectiveOp.ALL_REDUCE,
                group=Group(ranks=(0, 1), index=event.lane.index, label=event.lane.label),
                dtype="float32",
                numel=8,
                reduce_op=ReduceOp.SUM,
                tensor=event.body.name,
            ),
        )
        if isinstance(event.body, Compute)
        else event
        for event in program
    )


SCHEDULES = [one_f_one_b(2, 3), one_f_one_b(2, 6), one_f_one_b(3, 5)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.name} {s.num_ranks} {s.num_mb}")
def test_backwards_that_forwards_feed_hang_from_three_micro_batches_on_and_others_never(schedule):
    for is_fed in (True, False):
        trace = trace_of(schedule, is_fed=is_fed)
        verdict = check(trace, with_hazards=False)
        assert verdict.is_safe is not is_fed, explain(verdict)
        assert ThreadReplayer().replay(trace, time_limit_s=20).finished is not is_fed
    assert verdict.is_safe and prove_steps(trace).is_proved


def test_the_ring_goes_through_four_lanes_of_two_ranks_and_one_more_credit_opens_it():
    found = check(trace_of(one_f_one_b(2, 4), is_fed=True), with_hazards=False).findings[0]
    assert (found.code, found.cause) == ("M104", Cause.CYCLE_CREDIT)
    assert found.message == "ranks 0 and 1 wait for each other, through 4 lanes"
    assert [member.rank for member in found.cycle] == [0, 1, 1, 0]
    assert check(trace_of(one_f_one_b(2, 4), is_fed=True, credit=2), with_hazards=False).is_safe


def test_a_deeper_pipeline_needs_a_credit_for_each_stage_more():
    assert not check(trace_of(one_f_one_b(4, 6), is_fed=False), with_hazards=False).is_safe
    assert check(trace_of(one_f_one_b(4, 6), is_fed=False, credit=2), with_hazards=False).is_safe


def test_with_two_micro_batches_even_fed_backwards_end():
    assert check(trace_of(one_f_one_b(2, 2), is_fed=True), with_hazards=False).is_safe
