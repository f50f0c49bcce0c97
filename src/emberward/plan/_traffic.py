"""What each kind of group carries in a training step, by the collectives that the engine issues.

[Note: traffic]
`num_calls` and `payload_bytes` are of one rank and one step. The payload is the whole tensor of the collective: what an
all-gather gives, a reduce-scatter takes and an all-reduce keeps. `sent_bytes` is what a ring sends over a rank's link:
(n - 1) / n of an all-gather's or reduce-scatter's payload, twice that of an all-reduce's (Patarasuk and Yuan 2009).

tp with sequence parallel: a layer gathers positions before the two products that are split by columns and scatters
after the two that are split by rows; backward mirrors each. Recomputation gathers twice and scatters once again (the
last scatter's result is not needed: torch stops the second forward at the last saved tensor). The embedding
scatters, the head gathers. Without sequence parallel all-reduces stand in: two a layer forward, two backward. The loss
all-reduces the greatest logit and two sums a token. Once a step: gradients of what tp ranks hold alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from emberward.layout import Axis
from emberward.plan._memory import StepShape, held_numel, stage_tensors

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


def _tp(shape: StepShape, stages: tuple[int, ...], rank: int) -> Iterator[Traffic]:
    tp, tiling = shape.mesh.axis_size(Axis.TP), shape.tiling
    if tp == 1:
        return
    num_mb = shape.schedule.num_mb
    tokens = tiling.tokens(shape.decoder)
    whole = tokens * shape.decoder.hidden * tiling.compute_bytes
    num_layers = sum(len(shape.stage_layers[stage]) for stage in stages)
    ends = sum(shape.is_first(stage) + shape.is_last(stage) for stage in stages)
    losses = sum(shape.is_last(stage) for stage in stages)
    if tiling.sequence_parallel:
        calls = num_mb * (num_layers * (8 + (3 if tiling.recompute else 0)) + 2 * ends)
        kind, replicated = TrafficKind.GATHER, _replicated_numel(shape, stages, rank)
    else:
        # Forward sums after rows and after the embedding; backward sums before columns and before the head.
        calls = num_mb * (num_layers * (4 + (1 if tiling.recompute else 0)) + ends)
        kind, replicated = TrafficKind.ALL_REDUCE, 0
    yield Traffic(group="tp", kind=kind, num_ranks=tp, num_calls=calls, payload_bytes=calls * whole)
    yield Traffic(
        group="tp",
        kind=TrafficKind.ALL_REDUCE,
        num_ranks=tp,
        num_calls=2 * losses * num_mb + (1 if replicated else 0),
        payload_bytes=3 * losses * num_mb * tokens * _FLOAT_BYTES + _FLOAT_BYTES * replicated,
    )


def _replicated_numel(shape: StepShape, stages: tuple[int, ...], rank: int) -> int:
    """Elements whose gradients are partial sums over tp, as this dp rank holds them."""
    return sum(
        held_numel(tensor, shape.mesh, rank)
        for stage in stages
        for tensor in stage_tensors(shape, stage)
        if tensor.tp_dim is None
    )


def _dp(shape: StepShape, stages: tuple[int, ...], rank: int) -> Iterator[Traffic]:
    sharded, replicas = shape.mesh.axis_size(Axis.DP_SHARD), shape.mesh.axis_size(Axis.DP_REPLICATE)
    num_mb, width = shape.schedule.num_mb, shape.tiling.compute_bytes
    # FSDP2 has a unit for each layer and one for what a stage holds beside them.
    units = sum(len(shape.stage_layers[stage]) + 1 for stage in stages if _has_outside(shape, stage))
    units += sum(len(shape.stage_layers[stage]) for stage in stages if not _has_outside(shape, stage))
    padded = padded_numel(shape, stages, rank)
    if sharded > 1:
        gathers = 2 * num_mb if shape.zero == 3 else 1
        scatters = num_mb if shape.zero >= 2 else 1
        payload = padded * (gathers * width + scatters * _FLOAT_BYTES)
        yield Traffic(
            group="dp",
            kind=TrafficKind.GATHER,
            num_ranks=sharded,
            num_calls=units * (gathers + scatters),
            payload_bytes=payload,
        )
    if replicas > 1:
        yield Traffic(
            group="dp_replicate",
            kind=TrafficKind.ALL_REDUCE,
            num_ranks=replicas,
            num_calls=units,
            payload_bytes=padded // sharded * _FLOAT_BYTES,
        )


def _has_outside(shape: StepShape, stage: int) -> bool:
    return shape.is_first(stage) or shape.is_last(stage)


def padded_numel(shape: StepShape, stages: tuple[int, ...], rank: int) -> int:
    """Elements of the stages over tp, each tensor padded so that dp_shard divides its first dim."""
    sharded, count = shape.mesh.axis_size(Axis.DP_SHARD), 0
    for stage in stages:
        for tensor in stage_tensors(shape, stage):
            numel = held_numel(tensor, shape.mesh, rank, is_sharded=False)
            parts = shape.mesh.axis_size(Axis.TP) if tensor.tp_dim == 0 else 1
            rows = -(-tensor.shape[0] // parts)
            count += numel // rows * (-(-rows // sharded) * sharded)
    return count


def _pp(shape: StepShape, stages: tuple[int, ...]) -> Iterator[Traffic]:
    if shape.schedule.num_ranks == 1:
        return
    sends = sum((not shape.is_first(stage)) + (not shape.is_last(stage)) for stage in stages) * shape.schedule.num_mb
    yield Traffic(
        group="pp",
        kind=TrafficKind.TRANSFER,
        num_ranks=shape.schedule.num_ranks,
        num_calls=sends,
        payload_bytes=sends * shape.tiling.stream_bytes(shape.decoder),
    )


def _tied(shape: StepShape, stages: tuple[int, ...], rank: int) -> Iterator[Traffic]:
    ends = [stage for stage in stages if shape.is_first(stage) != shape.is_last(stage)]
    if shape.schedule.num_ranks == 1 or not shape.decoder.is_tied or not ends:
        return
    embedding = next(shape.decoder.first_tensors())
    numel = held_numel(embedding, shape.mesh, rank)
    yield Traffic(
        group="tied",
        kind=TrafficKind.ALL_REDUCE,
        num_ranks=2,
        num_calls=len(ends),
        payload_bytes=len(ends) * numel * _FLOAT_BYTES,
    )
