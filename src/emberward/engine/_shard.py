"""ZeRO over the dp axes by FSDP2, and where each parameter's local part lies in the whole.

[Note: ZeRO by FSDP2]
Parameters lie sharded in float32: they are the master weights. ZeRO-3 frees gathered parameters after each use.
ZeRO-1 and 2 keep them gathered until the step's last backward. ZeRO-2 and 3 reduce-scatter each micro-batch's
gradients, ZeRO-1 sums them whole and reduce-scatters once. ZeRO-0 is FSDP2's HSDP form with shards of one rank: an
all-reduce. Gradients are summed, never averaged: token weights are applied at the step's end.
torch 2.13's zero-bubble schedules give silently wrong gradients with resharding after forward (measured); the
schedules here run a whole backward at once and are exact, which tests show for each of them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from emberward.engine._asked_for import is_dtensor, is_fsdp
from emberward.engine._bloom import BloomShape, BloomStage, canonical_name, init_constant, init_std_of
from emberward.engine._world import DP_AXES, World
from emberward.layout import Axis, Box, Layout, Placement, Split, local_box
from emberward.recipe import ComputeType, ZeroStage

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

COMPUTE_DTYPE = {
    ComputeType.FP32: torch.float32,
    ComputeType.BF16: torch.bfloat16,
    ComputeType.FP16: torch.float16,
}


def shard_stage(stage: BloomStage, world: World, *, zero: ZeroStage, compute: ComputeType) -> None:
    """Shards `stage` over the dp axes in place. All ranks of the dp groups must call; does not communicate."""
    if world.dp_size == 1 and compute is ComputeType.FP32:
        return
    # See `_asked_for.py` [Note: what a layout does not need].
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=COMPUTE_DTYPE[compute], reduce_dtype=torch.float32)
    reshard = zero is ZeroStage.PARAMETERS
    mesh = _dp_mesh(world)
    for block in stage.blocks.values():
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(stage, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    for module in fsdp_modules(stage):
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)


def _dp_mesh(world: World) -> DeviceMesh:
    """The mesh for FSDP2: [shard], or [replicate, shard] for HSDP and ZeRO-0."""
    if world.size(Axis.DP_REPLICATE) > 1:
        return world.device_mesh[Axis.DP_REPLICATE.value, Axis.DP_SHARD.value]
    return world.device_mesh[Axis.DP_SHARD.value]


def fsdp_modules(stage: nn.Module) -> "Iterator[FSDPModule]":
    """The modules of `stage` that FSDP2 manages."""
    for module in stage.modules():
        if is_fsdp(module):
            yield module


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterPart:
    """One parameter as this rank holds it.

    `name` is its name in a checkpoint, `box` its place in the whole tensor of `shape`. `is_owner` is true on exactly
    one rank for every element of the model: it counts in the gradient norm and is the one that is saved.
    `is_tp_partial`: its gradient is a partial sum over tp until `reduce_replicated`. `is_tied`: its gradient is a
    partial sum over the first and last stage.
    """

    name: str
    shape: tuple[int, ...]
    layout: Layout
    box: Box
    param: nn.Parameter
    is_owner: bool
    is_tp_partial: bool
    is_tied: bool
    decays: bool

    @property
    def local(self) -> Tensor:
        """The local values, sharing storage with the parameter."""
        return local_values(self.param)

    @property
    def local_grad(self) -> Tensor | None:
        """The local gradient, sharing storage; None before the first backward."""
        return None if self.param.grad is None else local_values(self.param.grad)


def local_values(tensor: Tensor) -> Tensor:
    """A DTensor's local part, sharing storage and outside autograd; any other tensor detached."""
    return tensor._local_tensor.detach() if is_dtensor(tensor) else tensor.detach()


def parameter_parts(stages: Sequence[BloomStage], world: World, *, sequence_parallel: bool) -> list[ParameterPart]:
    """Every parameter of this rank's stages, once each, in a fixed order."""
    parts: dict[str, ParameterPart] = {}
    for stage in stages:
        for raw_name, param in stage.named_parameters():
            name = canonical_name(raw_name)
            if name not in parts:
                parts[name] = _part(name, raw_name, param, world, sequence_parallel=sequence_parallel)
    return list(parts.values())


def _part(name: str, raw_name: str, param: nn.Parameter, world: World, *, sequence_parallel: bool) -> ParameterPart:
    placements: dict[Axis, Placement] = {}
    if is_dtensor(param):
        names = param.device_mesh.mesh_dim_names or ()
        by_axis = dict(zip(names, param.placements, strict=True))
        # tp cuts first, then dp cuts the chunk: FSDP2 shards what tensor parallelism left.
        for axis in (Axis.TP, Axis.DP_SHARD):
            placement = by_axis.get(axis.value)
            if type(placement).__name__ in ("Shard", "_StridedShard"):
                placements[axis] = Split(placement.dim)  # type: ignore[union-attr]
    layout = Layout(placements)
    shape = tuple(param.shape)
    box = local_box(shape, layout, world.mesh, world.rank)
    found = tuple(local_values(param).shape)
    assert found == tuple(stop - start for start, stop in box), f"{name}: box {box} but local shape {found}"
    on_tp = isinstance(layout.on(Axis.TP), Split)
    replicated = [axis for axis in (*DP_AXES, Axis.TP) if axis not in placements]
    tied = name == BloomStage.TIED and world.size(Axis.PP) > 1
    return ParameterPart(
        name=name,
        shape=shape,
        layout=layout,
        box=box,
        param=param,
        is_owner=all(world.at(axis) == 0 for axis in replicated) and not (tied and raw_name != name),
        is_tp_partial=sequence_parallel and world.size(Axis.TP) > 1 and not on_tp,
        is_tied=tied,
        decays=len(shape) > 1,
    )


def materialise(stage: BloomStage, device: torch.device) -> None:
    """Gives a stage that was built on the meta device its memory, in place; values are undefined until `initialise`."""
    if any(is_fsdp(module) for module in stage.modules()):
        stage.to_empty(device=device)
    else:
        # Not `to_empty`: it swaps contents, and so refuses a fake parameter that anything holds by a weak reference,
        # as a dry run's are (torch 2.13, nn/modules/module.py _apply and utils/__init__.py swap_tensors).
        for module in stage.modules():
            for name, param in module.named_parameters(recurse=False):
                # `empty_like` of a plain meta tensor goes by torch._refs, which imports sympy (torch 2.13).
                empty = (
                    torch.empty_like(param, device=device)
                    if is_dtensor(param)
                    else torch.empty(param.shape, dtype=param.dtype, device=device)
                )
                module.register_parameter(name, nn.Parameter(empty, requires_grad=param.requires_grad))
            assert next(module.buffers(recurse=False), None) is None, "a stage has no buffers"
    if stage.is_first and stage.is_last:
        # Each owner of a tied parameter got memory of its own.
        stage.head.weight = cast(nn.Parameter, stage.embed.weight)


def initialise(parts: Sequence[ParameterPart], shape: BloomShape, *, seed: int) -> None:
    """Fills the parameters in place, each a pure function of (seed, name): the same on every layout.

    Needs the memory of one whole parameter at a time.
    """
    for part in parts:
        std = init_std_of(part.name, shape)
        if std is None:
            part.local.fill_(init_constant(part.name))
            continue
        digest = hashlib.sha256(f"{seed}:{part.name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        whole = torch.empty(part.shape).normal_(std=std, generator=generator)
        part.local.copy_(whole[tuple(slice(start, stop) for start, stop in part.box)])
