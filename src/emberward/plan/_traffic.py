"""What each kind of group carries in a training step, by the collectives that the engine issues.

[Note: traffic]
`num_calls` and `payload_bytes` are of one rank and one step. The payload is the whole tensor of the collective: what an
all-gather gives, a reduce-scatter takes and an all-reduce keeps. `sent_bytes` is what a ring sends over a rank's link:
(n - 1) / n of an all-gather's or reduce-scatter's payload, twice that of an all-reduce's (Patarasuk and Yuan 2009).

tp with sequence parallel: a change that enters gathers positions and one that leaves scatters them; backward mirrors
each. Recomputation repeats a layer's but for the last that leaves (its result is not needed: torch stops the second
forward at the last saved tensor). Without sequence parallel all-reduces stand in: leaving in the forward, entering in
the backward. The loss' own sums come beside, as the last block declares them. Once a step: gradients of what tp ranks
hold alike and know in part.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from emberward.layout import Axis, Direction, TpChange
from emberward.plan._gathers import stage_gathers
from emberward.plan._memory import StepShape, held_numel, keeps_all, summed_numel, unit_numels

_FLOAT_BYTES, _DOUBLE_BYTES = 4, 8
_TOTALS = 6


class TrafficKind(StrEnum):
    """How a payload travels."""

    GATHER = "gather or scatter"
    ALL_REDUCE = "all-reduce"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one rank's group of `group` (``tp``, ``dp``, ``pp``, ``tied``, ``world``) carries a step."""

    group: str
    kind: TrafficKind
    num_ranks: int
    num_calls: int
    payload_bytes: int

    @property
    def sent_bytes(self) -> int:
        """Bytes that the rank sends. See [Note: traffic]."""
        if self.kind is TrafficKind.TRANSFER:
            return self.payload_bytes
        factor = 2 if self.kind is TrafficKind.ALL_REDUCE else 1
        return factor * (self.num_ranks - 1) * self.payload_bytes // self.num_ranks


def rank_traffic(shape: StepShape, rank: int) -> tuple[Traffic, ...]:
    """What `rank` sends and receives in a training step, without what carries nothing. See [Note: traffic]."""
    pp_rank = shape.mesh.coordinates(rank).get(Axis.PP, 0)
    stages = shape.schedule.stages_of(pp_rank)
    rows = [*_tp(shape, stages, rank), *_dp(shape, stages, rank), *_pp(shape, stages), *_tied(shape, stages, rank)]
    rows.append(
        Traffic(
            group="world",
            kind=TrafficKind.ALL_REDUCE,
            num_ranks=shape.mesh.size,
            num_calls=1,
            payload_bytes=_TOTALS * _DOUBLE_BYTES,
        )
    )
    return tuple(row for row in rows if row.num_calls)


def changes_of(shape: StepShape, stages: Sequence[int]) -> Iterator[tuple[TpChange, int, int]]:
    """(change, times in a step's forwards with what is computed again, times in its backwards) of the stages' blocks.

    Not every time is a collective: see `layout.Direction`.
    """
    num_mb, last = shape.schedule.num_mb, len(shape.model.blocks) - 1
    for number in (number for stage in stages for number in shape.blocks(stage)):
        changes = shape.model.blocks[number].tp_changes
        is_again = shape.tiling.recompute and 0 < number < last
        ends = [change for change in changes if change.direction is Direction.LEAVE]
        for change in changes:
            again = change.times - (change is ends[-1] if ends else False) if is_again else 0
            yield change, num_mb * (change.times + again), num_mb * change.times


def splits(shape: StepShape, change: TpChange) -> bool:
    """Whether a change gathers and scatters positions, or sums whole tensors."""
    return shape.tiling.sequence_parallel and change.positions is not None


def _tp(shape: StepShape, stages: tuple[int, ...], rank: int) -> Iterator[Traffic]:
    tp, tiling = shape.mesh.axis_size(Axis.TP), shape.tiling
    if tp == 1:
        return
    calls = {kind: 0 for kind in TrafficKind}
    payload = {kind: 0 for kind in TrafficKind}
    for change, forward, backward in changes_of(shape, stages):
        if splits(shape, change):
            kind, times = TrafficKind.GATHER, forward + backward
        else:
            kind, times = TrafficKind.ALL_REDUCE, forward if change.direction is Direction.LEAVE else backward
        calls[kind] += times
        payload[kind] += times * tiling.micro_batch * math.prod(change.shape) * tiling.compute_bytes
    for number in (number for stage in stages for number in shape.blocks(stage)):
        num_calls, numbers = shape.model.blocks[number].loss_sums
        calls[TrafficKind.ALL_REDUCE] += num_calls * shape.schedule.num_mb
        payload[TrafficKind.ALL_REDUCE] += numbers * tiling.micro_batch * shape.schedule.num_mb * _FLOAT_BYTES
    replicated = summed_numel(shape, stages, rank)
    calls[TrafficKind.ALL_REDUCE] += 1 if replicated else 0
    payload[TrafficKind.ALL_REDUCE] += _FLOAT_BYTES * replicated
    for kind in (TrafficKind.GATHER, TrafficKind.ALL_REDUCE):
        yield Traffic(group="tp", kind=kind, num_ranks=tp, num_calls=calls[kind], payload_bytes=payload[kind])


def _dp(shape: StepShape, stages: tuple[int, ...], rank: int) -> Iterator[Traffic]:
    sharded, replicas = shape.mesh.axis_size(Axis.DP_SHARD), shape.mesh.axis_size(Axis.DP_REPLICATE)
    units = gathered_units(shape, stages, rank)
    padded = sum(numel for numel, _ in units)
    if sharded > 1:
        scatters = shape.schedule.num_mb if shape.zero >= 2 else 1
        gathered = sum(numel * times for numel, times in units)
        payload = gathered * shape.tiling.compute_bytes + scatters * padded * _FLOAT_BYTES
        yield Traffic(
            group="dp",
            kind=TrafficKind.GATHER,
            num_ranks=sharded,
            num_calls=sum(times + scatters for _, times in units),
            payload_bytes=payload,
        )
    if replicas > 1:
        yield Traffic(
            group="dp_replicate",
            kind=TrafficKind.ALL_REDUCE,
            num_ranks=replicas,
            num_calls=1 if shape.has_backward_lane and 0 in stages else len(units),
            payload_bytes=padded // sharded * _FLOAT_BYTES,
        )


def gathered_units(shape: StepShape, stages: tuple[int, ...], rank: int) -> list[tuple[int, int]]:
    """For each unit of the stages, a layer or what an end of a stage holds, (elements, times that they are gathered).

    Elements are those over tp, each tensor padded so that dp_shard divides its first dim. See `_gathers.py`.
    """
    found = []
    frees = shape.zero == 3 and not keeps_all(shape, stages, rank)
    for stage in stages:
        layers, ends = unit_numels(shape, stage, rank)
        times, at_ends = [1] * len(layers), 1
        if frees:
            width = shape.tiling.compute_bytes
            room = shape.gathered_bytes - width * sum(ends)
            sizes = [width * numel for numel in layers]
            times, at_ends = stage_gathers(shape.schedule, shape.schedule.rank_of(stage), stage, sizes, room)
        found += [*zip(layers, times, strict=True), *((numel, at_ends) for numel in ends)]
    return found


def _pp(shape: StepShape, stages: tuple[int, ...]) -> Iterator[Traffic]:
    if shape.schedule.num_ranks == 1:
        return
    rank_of = shape.schedule.rank_of
    sent = [shape.edge(at) for at in stages if not shape.is_last(at) and rank_of(at) != rank_of(at + 1)]
    sent += [shape.edge(at - 1) for at in stages if not shape.is_first(at) and rank_of(at) != rank_of(at - 1)]
    yield Traffic(
        group="pp",
        kind=TrafficKind.TRANSFER,
        num_ranks=shape.schedule.num_ranks,
        num_calls=len(sent) * shape.schedule.num_mb,
        payload_bytes=sum(shape.tiling.edge_bytes(edge) for edge in sent) * shape.schedule.num_mb,
    )


def _tied(shape: StepShape, stages: tuple[int, ...], rank: int) -> Iterator[Traffic]:
    ends = [stage for stage in stages if shape.is_first(stage) != shape.is_last(stage)]
    first, last = (shape.schedule.rank_of(stage) for stage in (0, len(shape.stage_layers) - 1))
    if first == last or not shape.model.tied or not ends:
        return
    numel = tied_numel(shape, rank)
    yield Traffic(
        group="tied",
        kind=TrafficKind.ALL_REDUCE,
        num_ranks=2,
        num_calls=len(ends),
        payload_bytes=len(ends) * numel * _FLOAT_BYTES,
    )


def tied_numel(shape: StepShape, rank: int) -> int:
    """Elements on `rank` of the tensors that the first and the last block share."""
    return sum(held_numel(shape.model.tensors[name], shape.mesh, rank) for name in shape.model.tied)
