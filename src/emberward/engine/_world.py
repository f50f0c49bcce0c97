"""Process groups and the device mesh of a run.

[Note: groups are made by hand]
`new_group` and `init_device_mesh` do not inherit the default group's timeout (torch 2.13: 30 minutes whatever
`init_process_group` was told), so every group is made here with the timeout said, in one order on all ranks, and the
device mesh is built from them. The creation order is part of a group's identity in events.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from emberward.engine._tensor_parallel import TensorAxis
from emberward.events import Group, Phase
from emberward.layout import Axis, Mesh

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


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """This rank's place: mesh, coordinates, device and communicators by name.

    Names: ``world``, ``tied`` (first and last stage of one pipeline), ``pp_down``, ``pp_up`` and each axis' own.
    Every value on which the host decides goes through `read`, so that a dry run, whose tensors hold no values, can
    declare it. `mark` follows the phases of programs, None when nobody listens.
    """

    rank: int
    mesh: Mesh
    device: torch.device
    coordinates: Mapping[Axis, int]
    channels: Mapping[str, Channel]
    device_mesh: DeviceMesh
    read: HostRead = host_values
    mark: PhaseMark | None = None

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
            mesh=self.device_mesh[Axis.TP.value],
            group=channel.handle,
            size=channel.size,
            group_rank=self.at(Axis.TP),
            sequence_parallel=sequence_parallel,
        )


def _make(members: list[tuple[int, ...]], rank: int, index: int, label: str, timeout: timedelta) -> Channel:
    """Makes one group for each of `members` and gives the one that `rank` is in. All ranks must call; blocks."""
    mine: Channel | None = None
    for ranks in members:
        handle = dist.new_group(list(ranks), timeout=timeout, group_desc=label)
        if rank in ranks:
            mine = Channel(group=Group(ranks=ranks, index=index, label=label), handle=handle)
    assert mine is not None, f"rank {rank} is in no {label} group"
    return mine


def build_world(mesh: Mesh, *, device: torch.device, timeout_s: float) -> World:
    """The world over the default process group. All ranks must call; blocks.

    `mesh` must cover the ranks 0..world_size-1 of an initialised default group.
    """
    rank = dist.get_rank()
    timeout = timedelta(seconds=timeout_s)
    everyone = tuple(mesh.ranks)
    default = dist.group.WORLD
    assert default is not None, "the default group is not initialised"
    channels = {"world": Channel(group=Group(ranks=everyone, label="world"), handle=default)}
    axes = [axis for axis, size in mesh.axes if size > 1 or axis is Axis.DP_SHARD]
    for axis in axes:
        channels[axis.value] = _make(list(mesh.groups(axis)), rank, 0, axis.value, timeout)
    if mesh.axis_size(Axis.PP) > 1:
        pipelines = list(mesh.groups(Axis.PP))
        channels["pp_down"] = _make(pipelines, rank, 1, "pp_down", timeout)
        channels["pp_up"] = _make(pipelines, rank, 2, "pp_up", timeout)
        ends: list[tuple[int, ...]] = [(ranks[0], ranks[-1]) for ranks in pipelines]
        inner: list[tuple[int, ...]] = [(member,) for ranks in pipelines for member in ranks[1:-1]]
        channels["tied"] = _make(ends + inner, rank, 3, "tied", timeout)
    shape = [mesh.axis_size(axis) for axis in axes]
    device_mesh = DeviceMesh.from_group(
        [channels[axis.value].handle for axis in axes],
        device.type,
        mesh=torch.arange(mesh.size).view(shape),
        mesh_dim_names=tuple(axis.value for axis in axes),
    )
    return World(
        rank=rank,
        mesh=mesh,
        device=device,
        coordinates=mesh.coordinates(rank),
        channels=channels,
        device_mesh=device_mesh,
    )
