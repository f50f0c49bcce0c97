"""The groups of a mesh in the order in which the engine makes them: one table for plan, dry run and ranks.

[Note: group order]
A group's identity is its ranks and how many groups of those ranks were made before it (`emberward.events`
[Note: groups]), so that the order of making is part of what a program says. The world comes first, then a group for
each axis of the mesh, then the pipeline's channels and its tied ends, then, with a backward lane, tp once more. Two of
these may have the same ranks: where the pipeline is the whole world, its channels are the third and the fourth group
over those ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from emberward.events import Group, GroupTable
from emberward.layout import Axis, Mesh

TP_BACKWARD = "tp_backward"
"""The tp groups of backwards that run beside forwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSet:
    """Groups of one purpose, one for each set of ranks; each rank is in exactly one."""

    label: str
    groups: tuple[Group, ...]

    def of(self, rank: int) -> Group:
        """The group that `rank` is in. Raises KeyError when there is none."""
        for group in self.groups:
            if rank in group.ranks:
                return group
        raise KeyError(f"rank {rank} is in no {self.label} group")


def mesh_axes(mesh: Mesh) -> tuple[Axis, ...]:
    """The axes that have a communicator of their own: those of more than one rank, and the one that shards."""
    return tuple(axis for axis, size in mesh.axes if size > 1 or axis is Axis.DP_SHARD)


@lru_cache(maxsize=8)
def group_sets(
    mesh: Mesh, ends: tuple[int, int] | None = None, *, has_backward_lane: bool = False
) -> tuple[GroupSet, ...]:
    """Every group of `mesh` in the order of making. See [Note: group order]. The first, the world, is torch's own.

    `ends`: the pipeline ranks of the first and the last stage; None: the first and the last pipeline rank.
    `has_backward_lane`: backwards have a tp group of their own.
    """
    table = GroupTable()
    return tuple(
        GroupSet(label=label, groups=tuple(table.made(ranks, label=label) for ranks in members))
        for label, members in _members(
            mesh, ends or (0, mesh.axis_size(Axis.PP) - 1), has_backward_lane=has_backward_lane
        )
    )


def _members(
    mesh: Mesh, ends: tuple[int, int], *, has_backward_lane: bool
) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    yield "world", [tuple(mesh.ranks)]
    for axis in mesh_axes(mesh):
        yield axis.value, list(mesh.groups(axis))
    if mesh.axis_size(Axis.PP) > 1:
        pipelines = list(mesh.groups(Axis.PP))
        yield "pp_down", pipelines
        yield "pp_up", pipelines
        tied: list[tuple[int, ...]] = [tuple(sorted({ranks[end] for end in ends})) for ranks in pipelines]
        inner: list[tuple[int, ...]] = [
            (member,) for ranks in pipelines for at, member in enumerate(ranks) if at not in ends
        ]
        yield "tied", tied + inner
    if has_backward_lane and mesh.axis_size(Axis.TP) > 1:
        yield TP_BACKWARD, list(mesh.groups(Axis.TP))
