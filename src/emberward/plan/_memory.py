"""Memory of a rank, from sizes alone: weights, gradients, optimizer, gathered copies, activations, buffers.

[Note: memory]
Weights lie sharded in float32 and are the master weights; gradients are float32, summed over dp; AdamW has two moments
(Rajbhandari et al. 2020, section 3, count the same 16 bytes a parameter with 16-bit weights and gradients beside the
float32 copies). These three are exact: tests hold them against the engine's own tensors. The rest is what the engine
holds at its peak, beside them:
- gathered: the parameters in the compute type, whole over dp. ZeRO-3 holds what `_gathers.py` says, two layers and the
  parameters outside layers at the least; the others hold all of them for the step.
- unsharded gradients: below ZeRO-2 float32 sums of the whole stage while micro-batches are added up, else those of two
  layers, one that is summed and one that fills; and the largest tensor's in the compute type, before it is added.
- activations: see `_activations.py`. Recomputation adds one layer's while that layer's backward runs.
- buffers: what travels between stages, as many as `_buffers.py` plans, and what blocks hold for good (masks). A
  forward's input counts as received until its compute ends, and as an activation besides: so much is held twice here.
Not counted: the allocator's rounding and cache, communicators, the device's context, temporaries of single kernels.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emberward.layout import Axis, Edge, Mesh, Model, TensorSpec, chunk
from emberward.plan._activations import Tiling, block_bytes, constant_bytes, late_bytes, peak_bytes, stage_bytes
from emberward.plan._buffers import rank_buffers
from emberward.plan._edges import Launches
from emberward.plan._gathers import HELD_LAYERS, held_layers
from emberward.plan._program import BufferKind
from emberward.plan._schedule import Schedule, Work

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """What memory depends on: the model, the mesh (pp, dp_replicate, dp_shard, tp), stages, schedule and widths.

    `zero` counts as ZeRO does: 0 nothing sharded over dp, 1 optimizer, 2 and gradients, 3 and parameters, of which so
    many `gathered_bytes` may be whole at a time. With a backward lane the first stage's gradients are summed over dp in
    one call.
    """

    model: Model
    mesh: Mesh
    stage_layers: tuple[range, ...]
    schedule: Schedule
    zero: int
    tiling: Tiling
    launches: Launches = Launches.EARLY
    has_backward_lane: bool = False
    gathered_bytes: int = 0

    @property
    def dp(self) -> int:
        """Ranks that read different samples."""
        return self.mesh.axis_size(Axis.DP_REPLICATE) * self.mesh.axis_size(Axis.DP_SHARD)

    @property
    def is_wrapped(self) -> bool:
        """Whether parameters are gathered into copies: always but where float32 is neither sharded nor cast."""
        return self.mesh.axis_size(Axis.DP_SHARD) > 1 or self.tiling.compute_bytes != _FLOAT_BYTES

    def is_first(self, stage: int) -> bool:
        """Whether `stage` holds the model's first block."""
        return stage == 0

    def is_last(self, stage: int) -> bool:
        """Whether `stage` holds the model's last block."""
        return stage == len(self.stage_layers) - 1

    def blocks(self, stage: int) -> range:
        """Numbers of the blocks of a stage."""
        return self.model.stage_blocks(self.stage_layers[stage])

    def edge(self, stage: int) -> Edge:
        """What passes from `stage` to the next."""
        return self.model.blocks[self.blocks(stage).stop - 1].output


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Bytes of one rank at its peak. `num_parameters` counts the elements it holds. See [Note: memory]."""

    rank: int
    stages: tuple[int, ...]
    num_parameters: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    gathered_bytes: int
    unsharded_gradient_bytes: int
    activation_bytes: int
    buffer_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of them."""
        fields = (field.name for field in dataclasses.fields(self) if field.name.endswith("_bytes"))
        return sum(getattr(self, name) for name in fields)


def stage_tensors(shape: StepShape, stage: int) -> Iterator[TensorSpec]:
    """The parameters of a stage, each once: a tied one that lies beside the one that it is, is that one."""
    return shape.model.tensors_of(shape.blocks(stage))


def unit_numels(shape: StepShape, stage: int, rank: int) -> tuple[list[int], list[int]]:
    """Elements of each layer of a stage, and of each of its ends: of what is gathered and summed over dp together.

    The model's first block is an end, and its last; both are one where they share a tensor. Elements are those over tp,
    each tensor padded so that dp_shard divides its first dim.
    """
    layers = [padded_numel(shape, shape.model.layers[layer].tensors, rank) for layer in shape.stage_layers[stage]]
    everything = padded_numel(shape, list(stage_tensors(shape, stage)), rank)
    is_apart = shape.is_first(stage) and not (shape.is_last(stage) and shape.model.tied)
    first = padded_numel(shape, shape.model.blocks[0].tensors, rank) if is_apart else 0
    return layers, [numel for numel in (first, everything - first - sum(layers)) if numel]


def padded_numel(shape: StepShape, tensors: Sequence[TensorSpec], rank: int) -> int:
    """Elements of the tensors over tp, each padded so that dp_shard divides its first dim."""
    sharded, count = shape.mesh.axis_size(Axis.DP_SHARD), 0
    for tensor in tensors:
        rows, *rest = held_shape(tensor, shape.mesh, rank, is_sharded=False)
        count += math.prod(rest) * (-(-rows // sharded) * sharded)
    return count


def keeps_all(shape: StepShape, stages: Sequence[int], rank: int) -> bool:
    """Whether the parameters of all the rank's `stages` fit gathered, so that ZeRO-3 keeps them as ZeRO-2 does."""
    numel = sum(sum(map(sum, unit_numels(shape, stage, rank))) for stage in stages)
    return numel * shape.tiling.compute_bytes <= shape.gathered_bytes


def frees_parameters(shape: StepShape) -> bool:
    """Whether ZeRO-3 frees gathered parameters in a step, on any rank."""
    return shape.zero == 3 and any(
        not keeps_all(shape, shape.schedule.stages_of(pp_rank), shape.mesh.rank_at({Axis.PP: pp_rank}))
        for pp_rank in range(shape.schedule.num_ranks)
    )


def held_shape(tensor: TensorSpec, mesh: Mesh, rank: int, *, is_sharded: bool = True) -> tuple[int, ...]:
    """Shape of what `rank` holds of `tensor`: its part over tp and, with `is_sharded`, of that its part over dp."""
    at = mesh.coordinates(rank)
    shape = list(tensor.local_shape(mesh.axis_size(Axis.TP), at.get(Axis.TP, 0)))
    if is_sharded:
        start, stop = chunk(shape[0], mesh.axis_size(Axis.DP_SHARD), at.get(Axis.DP_SHARD, 0))
        shape[0] = stop - start
    return tuple(shape)


def held_numel(tensor: TensorSpec, mesh: Mesh, rank: int, *, is_sharded: bool = True) -> int:
    """Elements of that part."""
    return math.prod(held_shape(tensor, mesh, rank, is_sharded=is_sharded))


def summed_numel(shape: StepShape, stages: Sequence[int], rank: int) -> int:
    """Elements that a dp rank sends where gradients are summed over the tp ranks that hold a part alike.

    A part that only some neighbours share travels in a place of its own (`engine/_gradients.py`).
    """
    tp, splits = shape.tiling.tp, shape.tiling.sequence_parallel
    return sum(
        held_numel(tensor, shape.mesh, rank) * (tp // tensor.copies(tp))
        for stage in stages
        for tensor in stage_tensors(shape, stage)
        if tensor.is_partial(tp, splits_positions=splits)
    )


def rank_memory(shape: StepShape, rank: int, *, has_buffers: bool = True) -> RankMemory:
    """The memory of `rank`. Pure; costs as many steps as the rank has parameters and actions.

    Most of the time goes into planning buffers, which are left out without `has_buffers`.
    """
    pp_rank = shape.mesh.coordinates(rank).get(Axis.PP, 0)
    stages = shape.schedule.stages_of(pp_rank)
    tensors = [tensor for stage in stages for tensor in stage_tensors(shape, stage)]
    local = [held_numel(tensor, shape.mesh, rank) for tensor in tensors]
    num_parameters = sum(local)
    gathered, unsharded = _gathered_bytes(shape, stages, rank)
    return RankMemory(
        rank=rank,
        stages=stages,
        num_parameters=num_parameters,
        weight_bytes=_FLOAT_BYTES * num_parameters,
        gradient_bytes=_FLOAT_BYTES * num_parameters,
        # Two moments, and a float32 count of updates for each parameter that the rank holds a part of.
        optimizer_bytes=2 * _FLOAT_BYTES * num_parameters + _FLOAT_BYTES * sum(1 for numel in local if numel),
        gathered_bytes=gathered,
        unsharded_gradient_bytes=unsharded,
        activation_bytes=_activation_bytes(shape, stages, pp_rank),
        buffer_bytes=_buffer_bytes(shape, stages, pp_rank) if has_buffers else 0,
    )


def _gathered_bytes(shape: StepShape, stages: Sequence[int], rank: int) -> tuple[int, int]:
    """(gathered parameters, unsharded gradients) at the peak."""
    if not shape.is_wrapped:
        return 0, 0
    units = [unit_numels(shape, stage, rank) for stage in stages]
    layers = [numel for numels, _ in units for numel in numels]
    ends = [numel for _, numels in units for numel in numels]
    everything = sum(layers) + sum(ends)
    largest_tensor = max(
        held_numel(tensor, shape.mesh, rank, is_sharded=False)
        for stage in stages
        for tensor in stage_tensors(shape, stage)
    )
    width = shape.tiling.compute_bytes
    gathered = width * everything
    if shape.zero == 3 and not keeps_all(shape, stages, rank):
        gathered = width * sum(ends) + max(_held_bytes(shape, *each) for each in units)
    adds_up = shape.zero < 2 and shape.schedule.num_mb > 1
    passing = width * largest_tensor
    if shape.mesh.axis_size(Axis.DP_SHARD) > 1:
        passing += _FLOAT_BYTES * (everything if adds_up else 2 * max([*layers, *ends]))
    return gathered, passing


def _held_bytes(shape: StepShape, layers: Sequence[int], ends: Sequence[int]) -> int:
    """Of a stage's layers, the most that ZeRO-3 holds gathered at a time."""
    sizes = [shape.tiling.compute_bytes * numel for numel in layers]
    room = shape.gathered_bytes - shape.tiling.compute_bytes * sum(ends)
    kept = (sum(each[: held_layers(each, room)]) for each in (sizes, sizes[::-1]))
    return max(*kept, sum(sorted(sizes)[-HELD_LAYERS:]))


def _activation_bytes(shape: StepShape, stages: Sequence[int], pp_rank: int) -> int:
    sizes = {stage: stage_bytes(shape.model, shape.blocks(stage), shape.tiling) for stage in stages}
    late = {
        stage: sum(late_bytes(shape.model.layers[layer], shape.tiling) for layer in shape.stage_layers[stage])
        for stage in stages
    }
    peak = peak_bytes(shape.schedule, pp_rank, sizes, late)
    layers = (shape.model.layers[layer] for stage in stages for layer in shape.stage_layers[stage])
    return peak + (max(block_bytes(layer, shape.tiling) for layer in layers) if shape.tiling.recompute else 0)


def _buffer_bytes(shape: StepShape, stages: Sequence[int], pp_rank: int) -> int:
    """Results that were received or are leaving, as many as are planned, and what blocks hold for good."""
    total = sum(
        constant_bytes(shape.model.blocks[number], shape.tiling) for stage in stages for number in shape.blocks(stage)
    )
    for each in rank_buffers(shape.schedule, pp_rank, shape.launches):
        if each.kind is not BufferKind.KEPT:
            # What is received as a gradient or leaves as a result passes behind the stage, the others before it.
            is_behind = (each.work is Work.FORWARD) == (each.kind is BufferKind.LEAVING)
            edge = shape.edge(each.stage if is_behind else each.stage - 1)
            total += each.count * shape.tiling.edge_bytes(edge)
    return total
