"""From the gradients of a step's micro-batches to one exact update: sums over tp and tied ends, norm, clip.

[Note: token weights]
Each micro-batch's loss is its sum over tokens divided by the step's nominal token count (global batch x positions), a
constant; masked tokens weigh nothing. After the last backward one all-reduce gives the true count, and the gradients
are scaled by nominal / true. The update is then that of the mean loss over the step's real tokens however the batch
was cut into micro-batches, ranks and accumulation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.engine._shard import ParameterPart
from emberward.engine._world import World
from emberward.layout import Axis

SWITCH = 2.0**32
"""A kill switch among the stops of a sum: float64 counts 2^21 ranks of each kind exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotals:
    """Sums over the whole world of one step.

    `loss_sum` in nats over `num_tokens` real tokens; `grad_norm` of the mean loss before clipping;
    `is_finite` is False when any rank's loss or gradient was not; `num_stops` counts ranks that were asked to stop,
    `num_switches` those of them that saw the kill switch.
    """

    loss_sum: float
    num_tokens: float
    grad_norm: float
    num_zeros: float
    is_finite: bool
    num_stops: int
    num_switches: int = 0

    @property
    def loss(self) -> float:
        """Mean loss a token, in nats."""
        return self.loss_sum / self.num_tokens if self.num_tokens else math.nan


def _flat_all_reduce(grads: Sequence[Tensor], group: dist.ProcessGroup) -> None:
    """Sums `grads` over the group in place with one collective. All ranks of the group must call; blocks."""
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    dist.all_reduce(flat, group=group)
    offset = 0
    for grad in grads:
        grad.copy_(flat[offset : offset + grad.numel()].view_as(grad))
        offset += grad.numel()


def _grads(parts: Sequence[ParameterPart]) -> list[Tensor]:
    return [grad for part in parts if (grad := part.local_grad) is not None]


def reduce_over_dp(parts: Sequence[ParameterPart], world: World) -> None:
    """Sums over dp the gradients of parameters that FSDP2 does not hold. All of dp must call; blocks."""
    _flat_all_reduce(_grads(parts), world.channels[Axis.DP_REPLICATE.value].handle)


def reduce_replicated(parts: Sequence[ParameterPart], world: World) -> None:
    """Sums over the tp ranks that hold a part alike the gradients that are partial there. All of tp must call; blocks.

    Parts of which only some neighbours hold copies travel beside those of the others, in a place of their own.
    """
    partial = [(part, grad) for part in parts if part.is_tp_partial and (grad := part.local_grad) is not None]
    if not partial:
        return
    tp, at = world.size(Axis.TP), world.at(Axis.TP)
    sent = [grad.new_zeros((tp // part.tp_copies, *grad.shape)) for part, grad in partial]
    for (part, grad), places in zip(partial, sent, strict=True):
        places[at // part.tp_copies] = grad
    _flat_all_reduce(sent, world.channels[Axis.TP.value].handle)
    for (part, grad), places in zip(partial, sent, strict=True):
        grad.copy_(places[at // part.tp_copies])


def reduce_tied(parts: Sequence[ParameterPart], world: World) -> None:
    """Sums the gradients of tied tensors over the first and the last stage; blocks.

    The ranks that hold them must both call; where one holds both, it sums alone.
    """
    by_name: dict[str, list[Tensor]] = {}
    for part in parts:
        if part.is_tied and (grad := part.local_grad) is not None:
            by_name.setdefault(part.name, []).append(grad)
    if not by_name:
        return
    for grads in by_name.values():
        for other in grads[1:]:
            grads[0].add_(other)
    if world.ends[0] != world.ends[1]:
        _flat_all_reduce([grads[0] for grads in by_name.values()], world.channels["tied"].handle)
    for grads in by_name.values():
        for other in grads[1:]:
            other.copy_(grads[0])


def sum_totals(
    parts: Sequence[ParameterPart],
    world: World,
    *,
    loss_sum: float,
    num_tokens: float,
    nominal_tokens: float,
    loss_scale: float,
    is_stopping: bool,
    is_switched_off: bool = False,
) -> StepTotals:
    """The step's totals, the same on every rank: one all-reduce of six float64. All ranks must call; blocks.

    Each element of the model counts once in the norm: only its owner's copy does. `loss_sum` and `num_tokens` are
    this rank's own and zero unless it computed the loss and is tp rank 0.
    """
    owned = [grad for part in parts if part.is_owner and (grad := part.local_grad) is not None and grad.numel()]
    squares, zeros = 0.0, 0.0
    if owned:
        norms = torch.stack(torch._foreach_norm(owned)).double()
        num_nonzero = torch.stack([torch.count_nonzero(grad) for grad in owned]).sum().double()
        squares, nonzeros = world.read("own_gradients", torch.stack([norms.square().sum(), num_nonzero]))
        zeros = sum(grad.numel() for grad in owned) - nonzeros
    is_finite = math.isfinite(squares) and math.isfinite(loss_sum)
    mine = [
        squares if is_finite else 0.0,
        loss_sum if math.isfinite(loss_sum) else 0.0,
        num_tokens,
        zeros,
        0.0 if is_finite else 1.0,
        (1.0 if is_stopping else 0.0) + (SWITCH if is_switched_off else 0.0),
    ]
    totals = torch.tensor(mine, dtype=torch.float64, device=world.device)
    dist.all_reduce(totals, group=world.channels["world"].handle)
    squares, loss_sum, num_tokens, zeros, bad, stops = world.read("step_totals", totals)
    to_mean = nominal_tokens / num_tokens / loss_scale if num_tokens else 0.0
    return StepTotals(
        loss_sum=loss_sum,
        num_tokens=num_tokens,
        grad_norm=math.sqrt(squares) * to_mean,
        num_zeros=zeros,
        is_finite=bad == 0.0,
        num_stops=int(stops % SWITCH),
        num_switches=int(stops // SWITCH),
    )


def scale_gradients(
    parts: Sequence[ParameterPart],
    totals: StepTotals,
    *,
    nominal_tokens: float,
    loss_scale: float,
    clip: float | None,
) -> float:
    """Scales every local gradient in place to that of the mean loss, clipped to norm `clip`; returns the factor.

    Does not communicate: `totals` is the same everywhere, hence so is the factor, on every tp and pp rank. (BLOOM-176B
    clipped on tp rank 0 alone and its layer norms drifted apart for months.)
    """
    factor = nominal_tokens / totals.num_tokens / loss_scale
    if clip is not None:
        factor *= min(1.0, clip / (totals.grad_norm + 1e-6))
    grads = _grads(parts)
    if grads and factor != 1.0:
        torch._foreach_mul_(grads, factor)
    return factor
