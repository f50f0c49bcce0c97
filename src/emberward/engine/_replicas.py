"""Which of this rank's tensors other ranks hold as well, bit for bit.

[Note: who holds a copy]
A part is held alike by the ranks along each axis that does not split it: by dp's replicas (HSDP, ZeRO-0), by all of tp
where tensor parallelism leaves a parameter whole (norms, biases of row-parallel layers), and the tied embedding by the
first and the last stage. Its moments lie where it lies and are copies as it is. What ZeRO shards over dp has no copy
there between steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from torch import Tensor

from emberward.checkpoint import Shard
from emberward.engine._optimizer import LocalAdamW
from emberward.engine._shard import ParameterPart
from emberward.engine._world import World
from emberward.layout import Axis, Mesh, Split


class Sharing(IntEnum):
    """Which axes hold a tensor alike, beside dp's replicas. See [Note: who holds a copy]."""

    TIED = 0
    """The first and the last stage."""
    TP_WHOLE = 1
    """All of tp."""
    DP = 2
    """Dp's replicas alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replica:
    """A tensor of this rank that other ranks must hold alike; `shard` shares storage with the engine's own."""

    shard: Shard
    sharing: Sharing
    is_moment: bool


def holders(mesh: Mesh, rank: int, sharing: Sharing) -> tuple[int, ...]:
    """The ranks that hold what `rank` holds with this sharing, ascending; () when `rank` holds nothing of the kind.

    The first of them holds the copy that is saved.
    """
    match sharing:
        case Sharing.DP:
            return mesh.group(rank, Axis.DP_REPLICATE)
        case Sharing.TP_WHOLE:
            return mesh.group(rank, Axis.DP_REPLICATE, Axis.TP)
        case Sharing.TIED:
            at, last = mesh.coordinates(rank), mesh.axis_size(Axis.PP) - 1
            if last == 0 or at.get(Axis.PP) not in (0, last):
                return ()
            ends = (mesh.rank_at({**at, Axis.PP: end}) for end in (0, last))
            return tuple(sorted(other for end in ends for other in mesh.group(end, Axis.DP_REPLICATE)))


def replicas_of(parts: Sequence[ParameterPart], optimizer: LocalAdamW, world: World) -> list[Replica]:
    """Every parameter and moment of this rank that has another copy, by sharing and then as `parts` lists them.

    The order within a sharing is the same on all its holders. Does not communicate.
    """
    found = [
        Replica(shard=_shard(f"model/{part.name}", part, part.local), sharing=_sharing(part, world), is_moment=False)
        for part in parts
        if part.local.numel()
    ]
    for moment, part, tensor in optimizer.moments():
        shard = _shard(f"optim/{moment}/{part.name}", part, tensor)
        found.append(Replica(shard=shard, sharing=_sharing(part, world), is_moment=True))
    copied = [each for each in found if len(holders(world.mesh, world.rank, each.sharing)) > 1]
    return sorted(copied, key=lambda each: each.sharing)


def _shard(name: str, part: ParameterPart, tensor: Tensor) -> Shard:
    return Shard(name=name, global_shape=part.shape, box=part.box, tensor=tensor)


def _sharing(part: ParameterPart, world: World) -> Sharing:
    if part.is_tied:
        return Sharing.TIED
    is_split = isinstance(part.layout.on(Axis.TP), Split) or world.size(Axis.TP) == 1
    return Sharing.DP if is_split else Sharing.TP_WHOLE
