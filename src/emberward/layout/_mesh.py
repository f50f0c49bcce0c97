"""Meshes of ranks with named axes.

[Note: mesh order]
Ranks lie in row-major order over the axes: the last axis varies fastest. The canonical order is pp, dp_replicate,
dp_shard, cp, ep, tp, so that the ranks of one tensor-parallel group are neighbours and share the fastest links. Ranks
of a mesh ascend: torch places chunks by sorted rank, so that another order gives silently wrong offsets (torch 2.13
DeviceMesh, measured).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Axis(StrEnum):
    """A way in which ranks split the work; listed from the slowest-varying to the fastest. See [Note: mesh order]."""

    PP = "pp"
    DP_REPLICATE = "dp_replicate"
    DP_SHARD = "dp_shard"
    CP = "cp"
    EP = "ep"
    TP = "tp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """Named axes over consecutive ranks that begin at `first_rank`. See [Note: mesh order]."""

    axes: tuple[tuple[Axis, int], ...]
    first_rank: int = 0

    def __post_init__(self) -> None:
        names = [axis for axis, _ in self.axes]
        if len(set(names)) != len(names):
            raise ValueError(f"an axis appears twice in {[name.value for name in names]}")
        for axis, size in self.axes:
            if size < 1:
                raise ValueError(f"axis {axis.value} needs at least 1 rank, found {size}")

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(size for _, size in self.axes)

    @property
    def ranks(self) -> range:
        """Global ranks, ascending."""
        return range(self.first_rank, self.first_rank + self.size)

    def axis_size(self, axis: Axis) -> int:
        """Number of ranks along `axis`; 1 when the mesh has no such axis."""
        return dict(self.axes).get(axis, 1)

    def coordinates(self, rank: int) -> dict[Axis, int]:
        """Where `rank` sits on each axis. Raises ValueError when it is not in the mesh."""
        if rank not in self.ranks:
            raise ValueError(f"rank {rank} is not in the mesh of ranks {self.ranks.start}..{self.ranks.stop - 1}")
        rest = rank - self.first_rank
        found: dict[Axis, int] = {}
        for axis, size in reversed(self.axes):
            rest, found[axis] = divmod(rest, size)
        return {axis: found[axis] for axis, _ in self.axes}

    def rank_at(self, coordinates: Mapping[Axis, int]) -> int:
        """The global rank at `coordinates`; axes that are left out count as 0. Raises ValueError out of range."""
        rank = 0
        for axis, size in self.axes:
            coordinate = coordinates.get(axis, 0)
            if not 0 <= coordinate < size:
                raise ValueError(f"coordinate {coordinate} is outside axis {axis.value} of {size}")
            rank = rank * size + coordinate
        return self.first_rank + rank

    def group(self, rank: int, *axes: Axis) -> tuple[int, ...]:
        """Ranks that differ from `rank` only along `axes`, ascending; (rank,) when the mesh has none of them."""
        found = [0]
        for (axis, size), coordinate in zip(self.axes, self.coordinates(rank).values(), strict=True):
            along = range(size) if axis in axes else (coordinate,)
            found = [base * size + at for base in found for at in along]
        return tuple(self.first_rank + other for other in found)

    def groups(self, *axes: Axis) -> Iterator[tuple[int, ...]]:
        """Every group along `axes`, in order of its first rank; each rank is in exactly one."""
        first = self.first_rank
        along = [other - first for other in self.group(first, *axes)]
        for base in self.group(first, *(axis for axis, _ in self.axes if axis not in axes)):
            yield tuple(base + offset for offset in along)
