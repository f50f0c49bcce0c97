"""Where each parameter's local part lies in the whole, and its first values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from emberward.draws import key_of, normal_box
from emberward.engine._stage import StageModule
from emberward.engine._world import DP_AXES, World
from emberward.layout import Axis, Box, Constant, Normal, TensorSpec, chunk


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
        return self.param.detach()

    @property
    def local_grad(self) -> Tensor | None:
        """The local gradient, sharing storage; None before the first backward."""
        return None if self.param.grad is None else self.param.grad.detach()


def parameter_parts(
    stages: Mapping[int, StageModule],
    world: World,
    *,
    held: Callable[[int, nn.Parameter], nn.Parameter],
    splits_positions: bool,
    num_stages: int,
) -> list[ParameterPart]:
    """Every parameter of this rank's stages, once each, in a fixed order.

    `held(stage, parameter)` gives what this rank holds of a parameter between steps.

    A rank that holds the first and the last of several stages has what is tied twice, under one name.
    """
    return [
        _part(stage, spec, held(index, param), world, splits_positions=splits_positions, num_stages=num_stages)
        for index, stage in stages.items()
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
    # tp cuts first, then dp cuts the chunk along the first dim.
    start, stop = box[0]
    low, high = chunk(stop - start, world.size(Axis.DP_SHARD), world.at(Axis.DP_SHARD))
    box[0] = (start + low, start + high)
    found = tuple(param.shape)
    assert found == tuple(stop - start for start, stop in box), f"{spec.name}: box {box} but local shape {found}"
    copies = spec.copies(tp)
    replicated = [axis for axis in DP_AXES if axis is not Axis.DP_SHARD]
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


def materialise(stage: StageModule, device: torch.device) -> None:
    """Gives a stage that was built on the meta device its memory, in place; values are undefined until `initialise`."""
    # Not `to_empty`: it swaps contents, and so refuses a fake parameter that anything holds by a weak reference,
    # as a dry run's are (torch 2.13, nn/modules/module.py _apply and utils/__init__.py swap_tensors).
    for module in stage.modules():
        for name, param in module.named_parameters(recurse=False):
            # `empty_like` of a meta tensor goes by torch._refs, which imports sympy (torch 2.13).
            empty = torch.empty(param.shape, dtype=param.dtype, device=device)
            module.register_parameter(name, nn.Parameter(empty))
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
