"""Dumps as a trace, so that the judge of plans and dry runs judges them too."""

from collections.abc import Mapping
from typing import Any

from emberward.diagnose._calls import Call, GroupPart, RankFlight
from emberward.diagnose._frames import short_path, user_frame
from emberward.diagnose._groups import Groups, GroupView
from emberward.events import (
    Barrier,
    Body,
    Collective,
    CollectiveOp,
    Group,
    Lane,
    LaneKind,
    Observer,
    ReduceOp,
    Site,
    Trace,
    TraceBuilder,
)

MAX_TRACE_CALLS = 200_000
"""Most calls that `to_trace` turns into events; the newest of each rank are kept."""

_OPS = {
    "all_reduce": CollectiveOp.ALL_REDUCE,
    "allreduce": CollectiveOp.ALL_REDUCE,
    "all_gather": CollectiveOp.ALL_GATHER,
    "all_gather_base": CollectiveOp.ALL_GATHER,
    "all_gather_into_tensor": CollectiveOp.ALL_GATHER,
    "allgather": CollectiveOp.ALL_GATHER,
    "reduce_scatter": CollectiveOp.REDUCE_SCATTER,
    "reduce_scatter_base": CollectiveOp.REDUCE_SCATTER,
    "reduce_scatter_tensor": CollectiveOp.REDUCE_SCATTER,
    "all_to_all": CollectiveOp.ALL_TO_ALL,
    "all_to_all_base": CollectiveOp.ALL_TO_ALL,
    "broadcast": CollectiveOp.BROADCAST,
    "reduce": CollectiveOp.REDUCE,
    "gather": CollectiveOp.GATHER,
    "scatter": CollectiveOp.SCATTER,
}
_BARRIERS = frozenset({"barrier", "all_reduce_barrier", "monitored_barrier"})
PARTED = frozenset({"all_to_all", "all_to_all_base", "scatter"})
"""Calls that send each peer a part of its own, so that members may hold tensors of different size."""
SIZED = frozenset(
    {
        CollectiveOp.ALL_REDUCE,
        CollectiveOp.BROADCAST,
        CollectiveOp.REDUCE,
        CollectiveOp.ALL_GATHER,
        CollectiveOp.REDUCE_SCATTER,
    }
)
"""Collectives whose sizes have to be equal on all ranks."""


def body_of(call: Call, view: GroupView) -> Body | None:
    """The call's event body; None for a call that has no word among events (coalesced parts, foreign backends).

    Sizes that may differ between ranks by right (all-to-all, gather, scatter) are left out. Torch's recorder tells no
    root; a live ring does.
    """
    group = Group(ranks=view.members, index=view.index, label=view.label.partition("[")[0])
    if call.op in _BARRIERS:
        return Barrier(group=group)
    op = _OPS.get(call.op)
    if op is None:
        return None
    is_sized = op in SIZED
    return Collective(
        op=op,
        group=group,
        dtype=call.dtype if op not in (CollectiveOp.GATHER, CollectiveOp.SCATTER) else None,
        numel=call.numel if is_sized else None,
        root=call.root,
        reduce_op=None if call.reduce_op is None else ReduceOp(call.reduce_op),
    )


def site_of(call: Call) -> Site | None:
    """The user's line of a call."""
    frame = user_frame(call.frames)
    if frame is None or frame.line is None:
        return None
    return Site(file=short_path(frame.file), line=frame.line, function=frame.function)


def group_window(
    flights: Mapping[int, RankFlight],
    view: GroupView,
    *,
    low: int,
    high: int,
    world_size: int,
    stand_in: GroupPart,
) -> Trace | None:
    """A trace of one group's calls with seq in [low, high], as far as kept; None when a call has no word.

    Calls meet by their seq: every member's list starts at the same one, so that the k-th call meets the k-th. A rank
    whose early records were let go because they equal those of `stand_in` is given the latter's.
    """
    builder = TraceBuilder(world_size, Observer.DUMP)
    lane = Lane(kind=LaneKind.HOST)
    for rank in view.members:
        flight = flights.get(rank)
        part = None if flight is None else flight.groups.get(view.name)
        if part is None:
            continue
        builder.observe(rank)
        window = _window(part, low, high)
        if part.is_alike and part.entries and part.entries[0]["collective_seq_id"] > low >= part.seqs[0]:
            first_kept = part.entries[0]["collective_seq_id"]
            window = _window(stand_in, low, first_kept - 1) + window
        for entry in window:
            call = part.as_call(entry)
            body = body_of(call, view)
            if body is None:
                return None
            builder.add(rank, lane, body, site=site_of(call))
    return builder.build(assumptions=(f"calls {low} to {high} of {view.label}",))


def _window(part: GroupPart, low: int, high: int) -> list[dict[str, Any]]:
    kept: dict[int, dict[str, Any]] = {}
    for entry in part.entries:
        if low <= entry["collective_seq_id"] <= high:
            kept[entry["collective_seq_id"]] = entry
    return [kept[seq] for seq in sorted(kept)]


def to_trace(flights: Mapping[int, RankFlight], groups: Groups, *, world_size: int) -> Trace:
    """All kept collectives of all ranks as one trace of observer DUMP, in the order in which each rank issued them.

    A rank's ring may begin late: calls are kept from the first seq of each group that every dumped member still has.
    """
    starts: dict[GroupView, int] = {}
    for view in groups:
        firsts = [
            part.entries[0]["collective_seq_id"]
            for rank in view.members
            if rank in flights and (part := flights[rank].groups.get(view.name)) is not None and part.entries
        ]
        starts[view] = max(firsts, default=1)
    limit = MAX_TRACE_CALLS // max(len(flights), 1)
    builder = TraceBuilder(world_size, Observer.DUMP)
    lane = Lane(kind=LaneKind.HOST)
    for rank, flight in sorted(flights.items()):
        builder.observe(rank)
        calls = [
            (part.as_call(entry), groups.of(part))
            for part in flight.groups.values()
            for entry in part.entries
            if entry["collective_seq_id"] >= starts[groups.of(part)]
        ]
        calls.sort(key=lambda item: item[0].record)
        for call, view in calls[-limit:]:
            body = body_of(call, view)
            if body is not None:
                builder.add(rank, lane, body, site=site_of(call))
    return builder.build(assumptions=("one lane a rank: calls wait for one another in the order of issue",))
