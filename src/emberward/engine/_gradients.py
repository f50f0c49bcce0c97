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
    """Sums over dp the gradients of what `_zero.py` does not hold. All of dp must call; blocks."""
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
    own_sums: Tensor,
    is_stopping: bool,
    is_switched_off: bool = False,
) -> Tensor:
    """The step's totals, six float64 on the device, the same on every rank. All ranks must call; reads nothing.

    Squared norm, loss, tokens, zeros, ranks that were not finite, stops; `read_totals` and `divisor` take them. Each
    element of the model counts once in the norm: only its owner's copy does. `own_sums` are the loss and the tokens
    that this rank counted, zeros unless it computed the loss and is tp rank 0.
    """
    owned = [grad for part in parts if part.is_owner and (grad := part.local_grad) is not None and grad.numel()]
    square = num_zeros = own_sums.new_zeros(())
    if owned:
        square = torch.stack(torch._foreach_norm(owned)).double().square().sum()
        num_nonzero = torch.stack([torch.count_nonzero(grad) for grad in owned]).sum()
        num_zeros = (sum(grad.numel() for grad in owned) - num_nonzero).double()
    loss_sum, num_tokens = own_sums.unbind()
    is_bad = ~(square.isfinite() & loss_sum.isfinite())
    stops = own_sums.new_full((), (1.0 if is_stopping else 0.0) + (SWITCH if is_switched_off else 0.0))
    totals = torch.stack(
        [
            square.masked_fill(is_bad, 0.0),
            loss_sum.nan_to_num(0.0, 0.0, 0.0),
            num_tokens,
            num_zeros,
            is_bad.double(),
            stops,
        ]
    )
    dist.all_reduce(totals, group=world.channels["world"].handle)
    return totals


def read_totals(totals: Tensor, world: World, *, nominal_tokens: float, loss_scale: float) -> StepTotals:
    """What `sum_totals` gave, on the host: the one read of a step. Does not communicate; waits for the device."""
    square, loss_sum, num_tokens, num_zeros, bad, stops = world.read("step_totals", totals)
    to_mean = nominal_tokens / num_tokens / loss_scale if num_tokens else 0.0
    return StepTotals(
        loss_sum=loss_sum,
        num_tokens=num_tokens,
        grad_norm=math.sqrt(square) * to_mean,
        num_zeros=num_zeros,
        is_finite=bad == 0.0,
        num_stops=int(stops % SWITCH),
        num_switches=int(stops // SWITCH),
    )


@dataclass(frozen=True, slots=True)
class Divisor:
    """What an update does to the gradients, as float32 scalars on the device.

    `by`: what divides them, so that they are those of the mean loss, clipped. `is_skipped`: 1 where there is nothing
    to update with, else 0. The same on every tp and pp rank, for `sum_totals` is. (BLOOM-176B clipped on tp rank 0
    alone and its layer norms drifted apart for months.)
    """

    by: Tensor
    is_skipped: Tensor


def divisor(totals: Tensor, *, nominal_tokens: float, loss_scale: float, clip: float | None) -> Divisor:
    """The divisor of a step's gradients, clipped to norm `clip`. Does not communicate and reads nothing."""
    square, _, num_tokens, _, bad, _ = totals.unbind()
    is_skipped = (bad > 0) | (num_tokens == 0)
    by = num_tokens * (loss_scale / nominal_tokens)
    if clip is not None:
        by = by * torch.clamp((square.sqrt() / by + 1e-6) / clip, min=1.0)
    return Divisor(by.masked_fill(is_skipped, 1.0).float(), is_skipped.float())


def scale_gradients(parts: Sequence[ParameterPart], by: Tensor) -> None:
    """Divides every local gradient in place by the scalar `by`, as the update itself does. Does not communicate."""
    grads = _grads(parts)
    if grads:
        torch._foreach_div_(grads, by)
