"""Which of this rank's tensors other ranks hold as well, bit for bit.

[Note: who holds a copy]
A part is held alike by the ranks along each axis that does not split it: by dp's replicas (HSDP, ZeRO-0), by all of tp
where tensor parallelism leaves a parameter whole (norms, biases of row-parallel layers), and the tied embedding by the
first and the last stage. Its moments lie where it lies and are copies as it is. What ZeRO shards over dp has no copy
there between steps. Where tp has more ranks than a model has key heads, tp neighbours hold those alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from torch import Tensor

from emberward.checkpoint import Shard
from emberward.engine._optimizer import LocalAdamW
from emberward.engine._shard import ParameterPart
from emberward.engine._world import World
from emberward.layout import Axis, Mesh


class Sharing(IntEnum):
    """Which axes hold a tensor alike, beside dp's replicas. See [Note: who holds a copy]."""

    TIED = 0
    """The first and the last stage."""
    TP_WHOLE = 1
    """All of tp."""
    DP = 2
    """Dp's replicas alone."""
    TP_SHARED = 3
    """Some tp neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replica:
    """A tensor of this rank that other ranks must hold alike; `shard` shares storage with the engine's own."""

    shard: Shard
    sharing: Sharing
    is_moment: bool


def holders(mesh: Mesh, rank: int, sharing: Sharing, ends: tuple[int, int], *, tp_shared: int = 1) -> tuple[int, ...]:
    """The ranks that hold what `rank` holds with this sharing, ascending; () when `rank` holds nothing of the kind.

    The first of them holds the copy that is saved. `ends`: the pipeline ranks of the first and the last stage;
    `tp_shared`: how many tp neighbours share a part that all of tp together hold in several copies.
    """
    match sharing:
        case Sharing.DP:
            return mesh.group(rank, Axis.DP_REPLICATE)
        case Sharing.TP_WHOLE:
            return mesh.group(rank, Axis.DP_REPLICATE, Axis.TP)
        case Sharing.TP_SHARED:
            place = mesh.coordinates(rank).get(Axis.TP, 0) // tp_shared
            both = mesh.group(rank, Axis.DP_REPLICATE, Axis.TP)
            return tuple(other for other in both if mesh.coordinates(other).get(Axis.TP, 0) // tp_shared == place)
        case Sharing.TIED:
            at = mesh.coordinates(rank)
            if ends[0] == ends[1] or at.get(Axis.PP) not in ends:
                return ()
            firsts = (mesh.rank_at({**at, Axis.PP: end}) for end in ends)
            return tuple(sorted(other for end in firsts for other in mesh.group(end, Axis.DP_REPLICATE)))


def all_holders(mesh: Mesh, sharing: Sharing, ends: tuple[int, int], *, tp_shared: int) -> Iterator[tuple[int, ...]]:
    """What `holders` gives for the ranks of the mesh, two or more, each once, in the order of their first rank."""
    match sharing:
        case Sharing.DP:
            found = mesh.groups(Axis.DP_REPLICATE)
        case Sharing.TP_WHOLE:
            found = mesh.groups(Axis.DP_REPLICATE, Axis.TP)
        case Sharing.TP_SHARED | Sharing.TIED:
            is_any = tp_shared > 1 if sharing is Sharing.TP_SHARED else ends[0] != ends[1]
            each = (holders(mesh, rank, sharing, ends, tp_shared=tp_shared) for rank in mesh.ranks if is_any)
            found = iter(dict.fromkeys(each))
    return (ranks for ranks in found if len(ranks) > 1)


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
    shared = tp_shared(parts, world)
    copied = [
        each for each in found if len(holders(world.mesh, world.rank, each.sharing, world.ends, tp_shared=shared)) > 1
    ]
    return sorted(copied, key=lambda each: each.sharing)


def _shard(name: str, part: ParameterPart, tensor: Tensor) -> Shard:
    return Shard(name=name, global_shape=part.shape, box=part.box, tensor=tensor)


def _sharing(part: ParameterPart, world: World) -> Sharing:
    if part.is_tied and world.ends[0] != world.ends[1]:
        return Sharing.TIED
    if part.tp_copies == 1:
        return Sharing.DP
    return Sharing.TP_WHOLE if part.tp_copies == world.size(Axis.TP) else Sharing.TP_SHARED


def tp_shared(parts: Sequence[ParameterPart], world: World) -> int:
    """How many tp neighbours share the parts that only some of tp hold alike; 1 without such parts."""
    return next((part.tp_copies for part in parts if _sharing(part, world) is Sharing.TP_SHARED), 1)
