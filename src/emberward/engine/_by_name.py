"""Any parameter's value, gradient or moments by name, whole, from whatever layout holds them.

[Note: by name]
Each element has one owner. Reading adds up bit patterns of which all but the owner's are zero, so what every rank gets
is the owner's bits, also of NaN and of negative zero. Writing takes rank 0's tensor to all and each rank cuts its own
part out, replicas and both tied ends too: copies that are equal before are equal after.
"""

from collections.abc import Sequence
from enum import StrEnum

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.engine._optimizer import LocalAdamW
from emberward.engine._shard import ParameterPart
from emberward.engine._world import World
from emberward.findings import ConfigError


class Quantity(StrEnum):
    """What of a parameter is meant. A gradient is there from the last backward to the update, summed and clipped."""

    VALUE = "value"
    GRAD = "grad"
    EXP_AVG = "exp_avg"
    EXP_AVG_SQ = "exp_avg_sq"


def read_named(
    parts: Sequence[ParameterPart],
    optimizer: LocalAdamW,
    world: World,
    shapes: dict[str, tuple[int, ...]],
    name: str,
    what: Quantity,
) -> Tensor:
    """The whole float32 tensor, the same on every rank. See [Note: by name].

    All ranks must call; one all-reduce of the tensor's size over the world; blocks.
    """
    whole = torch.zeros(_shape_of(name, shapes), dtype=torch.int32, device=world.device)
    for part, local in _locals(parts, optimizer, name, what):
        if part.is_owner and local.numel():
            _cut(whole, part).copy_(local.contiguous().view(torch.int32))
    dist.all_reduce(whole, group=world.channels["world"].handle)
    return whole.view(torch.float32)


def write_named(
    parts: Sequence[ParameterPart],
    optimizer: LocalAdamW,
    world: World,
    shapes: dict[str, tuple[int, ...]],
    name: str,
    value: Tensor,
    what: Quantity,
) -> None:
    """Sets the whole float32 tensor to rank 0's `value` on every rank that holds a part of it. See [Note: by name].

    All ranks must call, each with a tensor of the parameter's shape; one broadcast of its size; blocks.
    """
    shape = _shape_of(name, shapes)
    if tuple(value.shape) != shape or value.dtype != torch.float32:
        raise ValueError(f"{name} is float32 of shape {shape}, found {value.dtype} of shape {tuple(value.shape)}")
    whole = value.detach().to(world.device, copy=True).contiguous()
    dist.broadcast(whole, src=0, group=world.channels["world"].handle)
    for part, local in _locals(parts, optimizer, name, what):
        local.copy_(_cut(whole, part))


def _shape_of(name: str, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    if name not in shapes:
        raise ConfigError(
            f"the model has no parameter {name}",
            code="K102",
            expected="a name such as " + ", ".join(sorted(shapes)[:3]),
            found=name,
            next="emberward checkpoint show SAVE lists the names, after model/",
        )
    return shapes[name]


def _locals(
    parts: Sequence[ParameterPart], optimizer: LocalAdamW, name: str, what: Quantity
) -> list[tuple[ParameterPart, Tensor]]:
    """This rank's parts of the quantity, sharing storage."""
    mine = [part for part in parts if part.name == name]
    match what:
        case Quantity.VALUE:
            return [(part, part.local) for part in mine]
        case Quantity.GRAD:
            # Every rank holds some parameter, so all ranks see alike whether there are gradients.
            if all(part.param.grad is None for part in parts):
                raise ValueError(f"{name} has no gradient now: read and set it in before_update")
            return [(part, grad) for part in mine if (grad := part.local_grad) is not None]
        case Quantity.EXP_AVG | Quantity.EXP_AVG_SQ:
            return [(part, local) for moment, part, local in optimizer.moments() if (moment, part.name) == (what, name)]


def _cut(whole: Tensor, part: ParameterPart) -> Tensor:
    """The part's place in the whole tensor, sharing storage."""
    return whole[tuple(slice(start, stop) for start, stop in part.box)]
