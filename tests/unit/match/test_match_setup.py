"""Groups that every role makes first and alike are left out of the simulation, and nothing else is."""

from dataclasses import replace

import pytest
from unit.match.scenes import HOST

from emberward.events import Collective, CollectiveOp, Group, GroupCreate, Lane, LaneKind, Observer, TraceBuilder, Wait
from emberward.layout import Axis, Mesh
from emberward.match import RoleTrace, check_roles
from emberward.match._setup import without_common_setup

MESH = Mesh(axes=((Axis.PP, 2), (Axis.DP_SHARD, 2)))
PAIRS = [Group(ranks=(first, first + 1), label="dp_shard") for first in (0, 2)]
STREAM = Lane(kind=LaneKind.COMM, label="stream")


def roles(*, order=(0, 1), num_late=0):
    """Each rank makes two groups, then one stage's sum runs beside the host and is waited for."""
    builder = TraceBuilder(4, Observer.DRY_RUN)
    for rank, numbers in ((0, (0, 1)), (2, order)):
        for number in numbers:
            builder.add(rank, HOST, GroupCreate(group=PAIRS[number]))
        for _ in range(num_late):
            builder.add(rank, HOST, GroupCreate(group=Group(ranks=(0, 1, 2, 3), index=1)))
        ref = builder.build().events[rank][-1].ref
        body = Collective(op=CollectiveOp.ALL_REDUCE, group=PAIRS[rank // 2], dtype="float32", numel=4)
        sum_ = builder.add(rank, STREAM, body, after=(ref,))
        builder.add(rank, HOST, Wait(on=sum_.ref))
    return RoleTrace(
        mesh=MESH, programs=builder.build().events, representative_of=(0, 0, 2, 2), observer=Observer.DRY_RUN
    )


def test_what_all_roles_begin_with_is_left_out_and_the_rest_stands_at_the_beginning():
    behind = without_common_setup(roles(num_late=1))
    for events in behind.programs.values():
        assert [type(event.body) for event in events] == [Collective, Wait]
        assert [event.position for event in events] == [0, 0]
        assert events[0].after == ()
    assert check_roles(roles()).is_proof
    assert check_roles(roles()).num_events == 4


def test_another_order_of_making_groups_is_simulated_and_found():
    odd = roles(order=(1, 0))
    assert without_common_setup(odd) is odd
    verdict = check_roles(odd)
    assert not verdict.is_safe
    assert verdict.findings


@pytest.mark.parametrize("change", ["members", "after"])
def test_a_call_of_some_ranks_or_behind_another_is_no_common_setup(change):
    plain = roles()
    first = {rank: events[0] for rank, events in plain.programs.items()}
    if change == "members":
        first = {rank: replace(event, body=replace(event.body, members=(0, 1))) for rank, event in first.items()}
    else:
        first = {rank: replace(event, after=(plain.programs[rank][2].ref,)) for rank, event in first.items()}
    programs = {rank: (first[rank], *events[1:]) for rank, events in plain.programs.items()}
    odd = replace(plain, programs=programs)
    assert without_common_setup(odd) is odd
