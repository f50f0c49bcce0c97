"""Process groups of a run.

[Note: groups are made by hand]
`new_group` and `init_device_mesh` do not inherit the default group's timeout (torch 2.13: 30 minutes whatever
`init_process_group` was told), so every group is made here with the timeout said, in the order of the plan's table
(`emberward.plan` [Note: group order]).

A rank makes the groups that it is in, and not those of others: `use_local_synchronization`. 16,384 ranks have 20,000
groups, and each is in seven. Torch then names a group by its ranks and by how many groups the rank has made, so that
all its ranks must have made as many before: each rank is in one group of every set. Where NCCL splits communicators
from the world's, of which all ranks must take part, a set is one split, and the groups are its colours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.engine._lanes import Lanes, ThreadLanes
from emberward.events import Group, Phase
from emberward.families.layers import TensorAxis
from emberward.layout import Axis, Mesh
from emberward.plan import TP_BACKWARD, GroupSet, group_sets

DP_AXES = (Axis.DP_REPLICATE, Axis.DP_SHARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A communicator with its name in events."""

    group: Group
    handle: dist.ProcessGroup

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.group.ranks)


HostRead = Callable[[str, Tensor], list[float]]
"""Gives the host a small tensor's values, flat; the name says what is decided by them."""

PhaseMark = Callable[[Phase], None]
"""Is told which part of a program begins."""


def host_values(name: str, tensor: Tensor) -> list[float]:
    """The tensor's values, flat. Blocks until the device has them."""
    del name
    found: list[float] = tensor.reshape(-1).tolist()
    return found


def silent(text: str) -> None:
    """Nobody listens."""
    del text


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """This rank's place: mesh, coordinates, device and communicators by name.

    Names: ``world``, ``tied`` (first and last stage of one pipeline), ``pp_down``, ``pp_up`` and each axis' own.
    Every value on which the host decides goes through `read`, so that a dry run, whose tensors hold no values, can
    declare it. `mark` follows the phases of programs, None when nobody listens. `lanes` runs programs of several.
    `say` takes what debug operations tell people.
    """

    rank: int
    mesh: Mesh
    device: torch.device
    coordinates: Mapping[Axis, int]
    channels: Mapping[str, Channel]
    ends: tuple[int, int]
    """Pipeline ranks of the first and the last stage."""
    read: HostRead = host_values
    mark: PhaseMark | None = None
    lanes: Lanes = field(default_factory=ThreadLanes)
    say: Callable[[str], object] = silent

    def size(self, axis: Axis) -> int:
        """Number of ranks along `axis`."""
        return self.mesh.axis_size(axis)

    def at(self, axis: Axis) -> int:
        """This rank's coordinate on `axis`, 0 when the mesh lacks it."""
        return self.coordinates.get(axis, 0)

    @property
    def dp_size(self) -> int:
        """Number of ranks that read different samples."""
        return self.size(Axis.DP_REPLICATE) * self.size(Axis.DP_SHARD)

    @property
    def dp_rank(self) -> int:
        """Which part of a batch this rank reads."""
        return self.at(Axis.DP_REPLICATE) * self.size(Axis.DP_SHARD) + self.at(Axis.DP_SHARD)

    @property
    def pipe_ranks(self) -> tuple[int, ...]:
        """Global ranks of this rank's pipeline, by stage."""
        return self.mesh.group(self.rank, Axis.PP)

    def tensor_axis(self, *, sequence_parallel: bool) -> TensorAxis | None:
        """The tp axis, or None without tensor parallelism."""
        if self.size(Axis.TP) == 1:
            return None
        channel = self.channels[Axis.TP.value]
        return TensorAxis(
            group=channel.handle,
            size=channel.size,
            group_rank=self.at(Axis.TP),
            sequence_parallel=sequence_parallel,
            backward_group=self.channels[TP_BACKWARD].handle if TP_BACKWARD in self.channels else None,
        )


def _make(made: GroupSet, rank: int, timeout: timedelta) -> Channel:
    """Makes the group of the set that `rank` is in. All ranks must call; blocks for the others of its group."""
    group = made.of(rank)
    handle = dist.new_group(list(group.ranks), timeout=timeout, use_local_synchronization=True, group_desc=made.label)
    return Channel(group=group, handle=handle)


def build_world(
    mesh: Mesh,
    *,
    device: torch.device,
    timeout_s: float,
    ends: tuple[int, int] | None = None,
    has_backward_lane: bool = False,
) -> World:
    """The world over the default process group. All ranks must call; blocks.

    `mesh` must cover the ranks 0..world_size-1 of an initialised default group. `ends`: the pipeline ranks of the first
    and the last stage; None: the first and the last pipeline rank. `has_backward_lane`: the first stage's backwards run
    beside its forwards.
    """
    rank = dist.get_rank()
    timeout = timedelta(seconds=timeout_s)
    default = dist.group.WORLD
    assert default is not None, "the default group is not initialised"
    world, *others = group_sets(mesh, ends, has_backward_lane=has_backward_lane)
    channels = {world.label: Channel(group=world.of(rank), handle=default)}
    channels.update((made.label, _make(made, rank, timeout)) for made in others)
    return World(
        rank=rank,
        mesh=mesh,
        device=device,
        coordinates=mesh.coordinates(rank),
        channels=channels,
        ends=ends or (0, mesh.axis_size(Axis.PP) - 1),
    )
