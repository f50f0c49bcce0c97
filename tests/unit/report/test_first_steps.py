"""What was recorded and measured stands beside the page: by group, with the events of a training step alone."""

from dataclasses import replace

import pytest

from emberward.events import (
    Collective,
    CollectiveOp,
    Compute,
    Event,
    Group,
    Lane,
    LaneKind,
    Phase,
    ReduceOp,
    Send,
    Stage,
)
from emberward.match import explain_finding
from emberward.recipe import load_recipe, resolve
from emberward.report import (
    compare_traffic,
    first_steps_text,
    measured_bubble,
    preflight,
    recorded_traffic,
    traffic_finding,
    traffic_line,
)

HOST = Lane(kind=LaneKind.HOST)
TP, WORLD = Group(ranks=(0, 1), label="tp"), Group(ranks=(0, 1), label="world")


def event(body, position=0, *, step=1, stage=None, at=None) -> Event:
    times = {} if at is None else {"started_ns": at[0], "completed_ns": at[1]}
    return Event(rank=0, lane=HOST, position=position, body=body, phase=Phase(step=step, stage=stage), **times)


def gather(numel: int, group: Group = TP) -> Collective:
    return Collective(op=CollectiveOp.ALL_GATHER, group=group, dtype="bfloat16", numel=numel, out_numel=2 * numel)


def reduce(numel: int, group: Group = WORLD) -> Collective:
    return Collective(op=CollectiveOp.ALL_REDUCE, group=group, dtype="float64", numel=numel, reduce_op=ReduceOp.SUM)


def test_a_steps_bytes_are_those_of_whole_tensors_by_group():
    step = [event(gather(8), stage=Stage.FORWARD), event(gather(8), stage=Stage.BACKWARD), event(reduce(6))]
    assert recorded_traffic(step) == {"tp": (2, 64), "world": (1, 48)}


def test_evaluations_saves_and_groups_of_one_rank_do_not_count():
    alone = Group(ranks=(0,), label="dp_shard")
    step = [event(gather(8)), event(reduce(6, alone)), event(reduce(6), stage=Stage.EVAL), event(gather(8), step=2)]
    assert recorded_traffic(step) == {"tp": (1, 32)}
    assert recorded_traffic([event(reduce(1), stage=Stage.SAVE)]) == {}


def test_of_several_steps_the_one_with_most_calls_counts():
    """A ramp-up's rehearsal holds steps of several sizes; the page counts the largest."""
    steps = [event(gather(8)), event(reduce(6), stage=Stage.SAVE), event(gather(8)), event(gather(8))]
    assert recorded_traffic(steps) == {"tp": (2, 64)}


def test_a_step_that_is_played_twice_with_one_number_is_two_steps():
    step = [event(gather(8), stage=Stage.FORWARD), event(reduce(6), stage=Stage.OPTIMIZER), event(gather(8))]
    assert recorded_traffic(step) == recorded_traffic([*step, *step]) == {"tp": (2, 64), "world": (1, 48)}


def page_of_two():
    words = ["layout.dp=1", "layout.tp=1", "layout.pp=2"]
    return preflight(resolve(load_recipe("bloom_tiny", words), num_ranks=2, tokenizer_size=257))


def recorded_of(page, *, more: int = 0):
    """Events that carry exactly what the page says; `more` elements more in the first send."""
    pipe = Group(ranks=(0, 1), index=1, label="pp_down")
    tied = Group(ranks=(0, 1), index=3, label="tied")
    events = {}
    for role in page.roles:
        rows = {row.group: row for row in role.traffic}
        each = rows["pp"].payload_bytes // rows["pp"].num_calls // 4
        sends = [Send(peer=1, group=pipe, dtype="float32", numel=each) for _ in range(rows["pp"].num_calls)]
        sends[0] = replace(sends[0], numel=each + more * (role.pp_rank == 0))
        bodies = [*sends, replace(reduce(rows["tied"].payload_bytes // 4, tied), dtype="float32"), reduce(6)]
        events[role.memory.rank] = tuple(event(body) for body in bodies)
    return events


def test_bytes_as_planned_raise_no_warning():
    page = page_of_two()
    rows = compare_traffic(page, recorded_of(page))
    assert {row.group for row in rows} == {"pp", "tied", "world"}
    assert traffic_finding(rows) is None
    assert traffic_line(rows) == (
        "bytes a step: calls and bytes of the page are those that the dry run recorded (pp, tied, world)"
    )
    assert first_steps_text((), rows) == "measured against the plan\n  bytes       as planned (pp, tied, world)"


def test_other_bytes_than_planned_are_named():
    page = page_of_two()
    rows = compare_traffic(page, recorded_of(page, more=1))
    finding = traffic_finding(rows)
    assert finding is not None
    assert explain_finding(finding) == (
        "M112 group pp of pipeline rank 0 carries other bytes than the page says: 8 calls of 2,097,152 bytes planned, "
        "8 calls of 2,097,156 bytes recorded  [warning, observed]\n"
        "  pp 0 pp: planned 8 calls of 2,097,152 bytes, recorded 8 calls of 2,097,156 bytes\n"
        "  next      trust the recorded bytes; correct tp_changes of a family of your own, "
        "else report the page's as our bug"
    )
    assert traffic_line(rows) == "bytes a step: 1 of 6 rows of the page are not what the dry run recorded (M112)"


def test_a_group_that_no_rank_recorded_is_compared_only_when_asked_for():
    page = page_of_two()
    events = {rank: tuple(e for e in all_ if isinstance(e.body, Send)) for rank, all_ in recorded_of(page).items()}
    assert traffic_finding(compare_traffic(page, events, groups=frozenset({"pp"}))) is None
    assert traffic_finding(compare_traffic(page, events)) is not None
    assert compare_traffic(page, {}) == ()


def works(*spans, step) -> list[Event]:
    return [event(Compute(name=f"0F{i}"), i, step=step, stage=Stage.FORWARD, at=at) for i, at in enumerate(spans)]


def test_the_bubble_is_idle_time_of_the_last_recorded_step():
    first = works((0, 100), step=0)
    events = {0: [*first, *works((1000, 1040), (1040, 1080), step=1)], 1: [*first, *works((1060, 1100), step=1)]}
    assert measured_bubble(events) == pytest.approx(1 - 120 / 200)


def test_a_first_step_alone_warms_up_and_gives_no_bubble():
    assert measured_bubble({0: works((0, 100), step=0)}) is None
    untimed = [event(Compute(name="0F0"), step=step, stage=Stage.FORWARD) for step in (0, 1)]
    assert measured_bubble({0: untimed}) is None
    assert measured_bubble({}) is None
