"""What a micro-batch leaves in memory between its forward and its backward, as the engine runs it.

[Note: activations]
Korthikanti et al. 2022, section 4, count what backward needs of each operation; so do we, for this engine. A token of a
layer leaves, in elements of the compute type: the residual stream into each norm (2 h), each norm's result as the
products' input (2 h), queries, keys and values (h + 2 kv), attention's result (h), and of the feed-forward layer what
enters and leaves the activation (2 f; gated 3 f). Beside them float32: mean and deviation of each norm and one number a
head of the fused attention kernel; scores are never whole. With f = 4 h this is 16 h elements, 32 bytes times h in 16
bits: the paper's 34 s b h less its two dropout masks, and without its 5 a s^2 b of scores.

Where the backward is split (`_schedule.py` [Note: a backward in parts]), each linear layer's input and the gradient of
its result stay from I to W: with f = 4 h this is 16 h elements too.

Over tp what the norms read is split when the sequence is; the products' inputs are kept gathered (the paper gathers
them again in the backward), the rest is split by heads and by width. Recomputation leaves the layer's input alone.
A block declares what it leaves (`layout.Kept`); tests hold each family's declaration against what autograd keeps.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emberward.layout import Block, Edge, Kept, Model, Over, Product
from emberward.plan._schedule import Schedule, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How one micro-batch lies on a tensor-parallel rank. `compute_bytes` is the width of the compute type."""

    micro_batch: int
    tp: int
    sequence_parallel: bool
    compute_bytes: int
    recompute: bool

    def edge_bytes(self, edge: Edge) -> int:
        """What passes over an edge for a micro-batch, this rank's part."""
        shape = edge.local_shape(self.micro_batch, self.tp, splits_positions=self.sequence_parallel)
        return math.prod(shape) * self.compute_bytes

    def kept_bytes(self, kept: Kept) -> int:
        """What a rank holds of `kept` for a micro-batch; of a constant, once."""
        if kept.only_split and self.tp == 1:
            return 0
        is_split = kept.over is Over.TP or (kept.over is Over.POSITIONS and self.sequence_parallel)
        numel = kept.numel if kept.is_constant else kept.numel * self.micro_batch
        width = self.compute_bytes if kept.item_bytes is None else kept.item_bytes
        return -(-numel // self.tp if is_split else -numel) * width


def block_bytes(block: Block, tiling: Tiling) -> int:
    """What a block leaves for a micro-batch when all of it is kept. See [Note: activations]."""
    return sum(tiling.kept_bytes(kept) for kept in block.kept if not kept.is_constant)


def constant_bytes(block: Block, tiling: Tiling) -> int:
    """What a block holds whatever the number of samples."""
    return sum(tiling.kept_bytes(kept) for kept in block.kept if kept.is_constant)


def late_bytes(block: Block, tiling: Tiling) -> int:
    """What a layer holds for its weights' gradients between the two parts of a backward. See [Note: activations].

    An input that two products share counts for each of them.
    """
    numel = 0
    for each in block.operations:
        if isinstance(each, Product):
            into = each.into // (tiling.tp if each.split == "into" else 1)
            out = each.out // (tiling.tp if each.split == "out" else 1)
            numel += each.rows * (into + out)
    return numel * tiling.micro_batch * tiling.compute_bytes


def stage_bytes(model: Model, numbers: range, tiling: Tiling) -> int:
    """What a stage of those blocks leaves for one micro-batch; of a recomputed layer its input alone.

    A stage that is not the last keeps its result until its backward.
    """
    total, last = 0, len(model.blocks) - 1
    for number in numbers:
        if tiling.recompute and 0 < number < last:
            total += tiling.edge_bytes(model.blocks[number - 1].output)
        else:
            total += block_bytes(model.blocks[number], tiling)
    return total + (0 if numbers.stop > last else tiling.edge_bytes(model.blocks[numbers.stop - 1].output))


def peak_bytes(
    schedule: Schedule,
    pp_rank: int,
    bytes_of_stage: Mapping[int, int] | Sequence[int],
    late_bytes_of_stage: Mapping[int, int] | Sequence[int] | None = None,
) -> int:
    """The most that a pipeline rank's order keeps at once, with `bytes_of_stage` for each micro-batch of a stage.

    Between the two parts of a split backward it is `late_bytes_of_stage`; None: all of it stays. 1F1B keeps
    min(pp - rank, micro-batches) micro-batches, GPipe all (Narayanan et al. 2021, section 2.2).
    """
    late = late_bytes_of_stage or bytes_of_stage
    held = peak = 0
    for action in schedule.orders[pp_rank]:
        whole = bytes_of_stage[action.stage]
        held += {
            Work.FORWARD: whole,
            Work.BACKWARD: -whole,
            Work.INPUT: late[action.stage] - whole,
            Work.WEIGHT: -late[action.stage],
        }[action.work]
        peak = max(peak, held)
    return peak
