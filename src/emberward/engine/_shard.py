"""ZeRO over the dp axes by FSDP2, and where each parameter's local part lies in the whole.

[Note: ZeRO by FSDP2]
Parameters lie sharded in float32: they are the master weights. ZeRO-3 frees gathered parameters after each use.
ZeRO-1 and 2 keep them gathered until the step's last backward. ZeRO-2 and 3 reduce-scatter each micro-batch's
gradients, ZeRO-1 sums them whole and reduce-scatters once. ZeRO-0 is FSDP2's HSDP form with shards of one rank where
parameters are cast, else `_replicate.py`. Gradients are summed, never averaged: token weights are applied at the
step's end.
torch 2.13's zero-bubble schedules give silently wrong gradients with resharding after forward (measured). Here the
first part of a split backward (I) sums nothing over dp; gradients wait unsharded until the second (W) has added the
weights' (`_late_weights.py`), and `reduce_late` then does what FSDP2 does at a backward's end: ZeRO-2 and 3 for each
micro-batch, the others once. W reads no parameter, so that ZeRO-3 gathers as often as with whole backwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from emberward.draws import key_of, normal_box
from emberward.engine._asked_for import is_dtensor, is_fsdp
from emberward.engine._stage import StageModule
from emberward.engine._world import DP_AXES, World
from emberward.layout import Axis, Box, Constant, Normal, TensorSpec, chunk
from emberward.recipe import ComputeType, ZeroStage

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

COMPUTE_DTYPE = {
    ComputeType.FP32: torch.float32,
    ComputeType.BF16: torch.bfloat16,
    ComputeType.FP16: torch.float16,
}


def shard_stage(stage: StageModule, world: World, *, zero: ZeroStage, compute: ComputeType) -> None:
    """Shards `stage` over the dp axes in place. All ranks of the dp groups must call; does not communicate.

    Nothing where nothing is sharded nor cast: `_replicate.py` [Note: plain data parallelism].
    """
    if world.size(Axis.DP_SHARD) == 1 and compute is ComputeType.FP32:
        return
    # See `_asked_for.py` [Note: what a layout does not need].
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=COMPUTE_DTYPE[compute], reduce_dtype=torch.float32)
    reshard = zero is ZeroStage.PARAMETERS
    mesh = _dp_mesh(world)
    for block in stage.layers:
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


def end_forwards(stage: nn.Module) -> None:
    """Frees what forwards without gradients gathered, and what FSDP2 keeps of them. Does not communicate.

    FSDP2 notes each forward, to gather in the backward what came before (torch 2.13, _fsdp_param_group.py,
    _record_post_forward). An evaluation has no backward: at the end of the next step's the first layer would gather
    the evaluation's last one once more, for nothing. There is no public call for it.
    """
    for module in fsdp_modules(stage):
        module.reshard()
        group = module._get_fsdp_state()._fsdp_param_group
        if group is not None:
            group._post_forward_indices.clear()
            group.comm_ctx.post_forward_order.clear()


def reduce_late(stage: nn.Module) -> None:
    """Reduces over dp what the gradients of `stage` hold, as FSDP2 does at the end of a backward and as it was told to
    for the next one. All ranks of the dp groups must call; blocks. See [Note: ZeRO by FSDP2].

    There is no public call for it: this is the callback that FSDP2 queues itself (torch 2.13, _fsdp_state.py). What is
    summed first over dp_shard and in the end over dp_replicate must be of one length each time, so that a parameter
    whose gradient was in an earlier sum counts with zeros.
    """
    modules = list(fsdp_modules(stage))
    for module in modules:
        group = module._get_fsdp_state()._fsdp_param_group
        for each in group.fsdp_params if group is not None and group.reduce_grads else ():
            if each.unsharded_accumulated_grad is None:
                if each._unsharded_param.grad is None:
                    each._unsharded_param.grad = torch.zeros_like(each._unsharded_param)
                # One sum has one type: those of earlier micro-batches have been added up in the type of the reduction.
                each.to_accumulated_grad_if_needed()
    if modules:
        modules[0]._get_fsdp_state()._root_post_backward_final_callback()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterPart:
    """One parameter as this rank holds it.

    `box` is its place in the whole tensor. `tp_copies` neighbouring tp ranks hold it alike. `is_owner` is true on
    exactly one rank for every element of the model: it counts in the gradient norm and is the one that is saved.
    `is_tp_partial`: its gradient is a partial sum over those tp ranks until `reduce_replicated`. `is_tied`: its
    gradient is a partial sum over the first and last stage.
    """

    spec: TensorSpec
    box: Box
    param: nn.Parameter
    tp_copies: int
    is_owner: bool
    is_tp_partial: bool
    is_tied: bool

    @property
    def name(self) -> str:
        """Its name in a checkpoint."""
        return self.spec.stored_name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return self.spec.shape

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


def parameter_parts(
    stages: Sequence[StageModule], world: World, *, splits_positions: bool, num_stages: int
) -> list[ParameterPart]:
    """Every parameter of this rank's stages, once each, in a fixed order.

    A rank that holds the first and the last of several stages has what is tied twice, under one name.
    """
    return [
        _part(stage, spec, param, world, splits_positions=splits_positions, num_stages=num_stages)
        for stage in stages
        for spec, param in stage.named_tensors()
    ]


def _part(
    stage: StageModule,
    spec: TensorSpec,
    param: nn.Parameter,
    world: World,
    *,
    splits_positions: bool,
    num_stages: int,
) -> ParameterPart:
    tp, tp_rank = world.size(Axis.TP), world.at(Axis.TP)
    box = list(spec.box(tp, tp_rank))
    # tp cuts first, then dp cuts the chunk: FSDP2 shards what tensor parallelism left.
    dim = _sharded_dim(param)
    if dim is not None:
        start, stop = box[dim]
        low, high = chunk(stop - start, world.size(Axis.DP_SHARD), world.at(Axis.DP_SHARD))
        box[dim] = (start + low, start + high)
    found = tuple(local_values(param).shape)
    assert found == tuple(stop - start for start, stop in box), f"{spec.name}: box {box} but local shape {found}"
    copies = spec.copies(tp)
    replicated = [axis for axis in DP_AXES if axis is not Axis.DP_SHARD or dim is None]
    is_tied = spec.stored_name in stage.model.tied and num_stages > 1
    return ParameterPart(
        spec=spec,
        box=tuple(box),
        param=param,
        tp_copies=copies,
        is_owner=all(world.at(axis) == 0 for axis in replicated)
        and tp_rank % copies == 0
        and not (is_tied and spec.tied_to is not None),
        is_tp_partial=spec.is_partial(tp, splits_positions=splits_positions),
        is_tied=is_tied,
    )


def _sharded_dim(param: nn.Parameter) -> int | None:
    """The dim that FSDP2 shards over dp_shard; None where it does not."""
    if not is_dtensor(param):
        return None
    by_axis = dict(zip(param.device_mesh.mesh_dim_names or (), param.placements, strict=True))
    placement = by_axis[Axis.DP_SHARD.value]
    return placement.dim if type(placement).__name__ == "Shard" else None  # type: ignore[attr-defined]


def materialise(stage: StageModule, device: torch.device) -> None:
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
    # Each owner of a tied parameter got memory of its own.
    stage.tie()


def initialise(parts: Sequence[ParameterPart], *, seed: int) -> None:
    """Fills the parameters in place, each element a pure function of (seed, name, place): the same on every layout.

    Draws what this rank holds and no more: about 3 ns an element. Leaves a dry run's tensors, which hold no values.
    """
    for part in parts:
        if part.local.untyped_storage().device.type == "meta" or not part.local.numel():
            continue
        match part.spec.init:
            case Constant(value=value):
                part.local.fill_(value)
            case Normal(std=std):
                # A CPU's contiguous part is drawn in its place: fresh memory costs more than the values.
                in_place = part.local.device.type == "cpu" and part.local.is_contiguous()
                out = part.local.numpy() if in_place else None
                values = normal_box(key_of(seed, part.name), part.shape, part.box, std=std, out=out)
                if not in_place:
                    part.local.copy_(torch.from_numpy(values))
