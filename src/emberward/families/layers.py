"""Layers of which families build their blocks, and how each takes part in tensor parallelism. Needs torch.

[Note: tensor parallelism]
After Korthikanti et al. 2022, section 4. A parameter has the shape of this rank's part, as the family's `Model`
declares it; the maths runs on it with four explicit collectives a layer and direction, so that their order is that of
the program text (DTensor's own dispatch costs more than the work at small sizes, and hides what it sends).

- Between sub-layers the residual stream is split over positions ([B, T, H], T = S / tp).
- A column-parallel layer gathers positions before it works; its backward reduce-scatters.
- A row-parallel layer reduce-scatters its partial sums over positions; its backward gathers.
- Norms and the biases of row-parallel layers see their own positions only, hence their gradients are partial sums over
  tp. They are summed once a step, after accumulation, in one flat all-reduce (`engine/_gradients.py`).
Without sequence parallelism the stream is whole on each rank: row-parallel layers all-reduce, column-parallel layers
all-reduce in the backward, and the norms' gradients are whole.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from emberward.families._config import ModelConfig
from emberward.families._late_weights import LateProduct, LateWeights, WeightQueue, defer_weights

__all__ = [
    "ColumnLinear",
    "LateProduct",
    "LateWeights",
    "Linear",
    "Modules",
    "RMSNorm",
    "RowLinear",
    "TensorAxis",
    "VocabEmbedding",
    "WeightQueue",
    "defer_weights",
    "enter",
    "gather_vocabulary",
    "leave",
    "part_of",
    "swiglu",
    "token_loss",
    "token_losses",
]

# torch 2.13 renames these and warns at the old names; 2.11 has the old ones alone.
all_gather_flat = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_flat = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAxis:
    """The tp axis as this rank sees it. None stands for no tensor parallelism wherever it is taken."""

    group: dist.ProcessGroup
    size: int
    group_rank: int
    sequence_parallel: bool
    backward_group: dist.ProcessGroup | None = None
    """What backwards communicate over where they run beside forwards; None: `group`."""


class Modules(Protocol):
    """What a family's `modules.py` holds."""

    def build(self, config: ModelConfig, number: int, axis: TensorAxis | None) -> nn.Module:
        """Block `number` of the model, with parameters of this rank's parts and undefined values.

        Its forward takes (x, draws): a batch of inputs for the first block, else what the block before gave. `draws` is
        what a training step's random numbers come from, None in evaluation; see `emberward.draws`.
        """

    def loss(self, outputs: Tensor, labels: Tensor, weights: Tensor, axis: TensorAxis | None) -> tuple[Tensor, Tensor]:
        """(weighted sum of the losses, sum of the weights) of what the last block gave, on every rank of tp."""


def _gather(x: Tensor, group: dist.ProcessGroup, dim: int) -> Tensor:
    """All parts of `x` along `dim`, in order. Blocks until all ranks of the group have called."""
    size = dist.get_world_size(group)
    parts = x.new_empty((size, *x.shape))
    all_gather_flat(parts.view(size * x.shape[0], *x.shape[1:]), x.contiguous(), group=group)
    return torch.cat(parts.unbind(0), dim=dim)


def _reduce_scatter(x: Tensor, group: dist.ProcessGroup, dim: int) -> Tensor:
    """This rank's part along `dim` of the sum over the group. Blocks until all ranks of the group have called."""
    size = dist.get_world_size(group)
    parts = torch.stack(x.chunk(size, dim=dim))
    mine = torch.empty_like(parts[0])
    reduce_scatter_flat(mine, parts.view(size * mine.shape[0], *mine.shape[1:]), group=group)
    return mine


class _GatherPositions(torch.autograd.Function):
    """[B, T, H] -> [B, S, H]; backward reduce-scatters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: TensorAxis) -> Tensor:
        ctx.group = axis.backward_group or axis.group
        return _gather(x, axis.group, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _reduce_scatter(grads[0], ctx.group, 1), None


class _ScatterPositions(torch.autograd.Function):
    """Partial [B, S, H] -> summed [B, T, H]; backward gathers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: TensorAxis) -> Tensor:
        ctx.group = axis.backward_group or axis.group
        return _reduce_scatter(x, axis.group, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _gather(grads[0], ctx.group, 1), None


class _SumForward(torch.autograd.Function):
    """Partial -> summed; backward passes on (Megatron's g)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: TensorAxis) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=axis.group)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _SumBackward(torch.autograd.Function):
    """Passes on; backward sums (Megatron's f)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: TensorAxis) -> Tensor:
        ctx.group = axis.backward_group or axis.group
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0].clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


def enter(x_BTH: Tensor, axis: TensorAxis | None) -> Tensor:
    """What column-parallel layers work on: all positions, [B, S, H]. `layout.Direction.ENTER` declares it."""
    if axis is None:
        return x_BTH
    apply = _GatherPositions.apply if axis.sequence_parallel else _SumBackward.apply
    return apply(x_BTH, axis)


def leave(x_BSH: Tensor, axis: TensorAxis | None) -> Tensor:
    """What row-parallel layers give back to the residual stream, [B, T, H]. `layout.Direction.LEAVE` declares it."""
    if axis is None:
        return x_BSH
    apply = _ScatterPositions.apply if axis.sequence_parallel else _SumForward.apply
    return apply(x_BSH, axis)


def part_of(units: int, axis: TensorAxis | None) -> int:
    """The number of `units` that this rank holds, where tp divides them."""
    return units if axis is None else units // axis.size


class ColumnLinear(LateWeights):
    """A linear layer whose outputs are split over tp: `out` is this rank's part."""

    def __init__(self, into: int, out: int, axis: TensorAxis | None, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, into))
        self.bias = nn.Parameter(torch.empty(out)) if bias else None
        self._axis = axis

    def forward(self, x_BTH: Tensor) -> Tensor:
        """[B, S, out] of this rank's outputs, of all positions."""
        return self.linear(enter(x_BTH, self._axis), self.bias)


class RowLinear(LateWeights):
    """A linear layer whose inputs are split over tp: `into` is this rank's part. The bias is added once."""

    def __init__(self, into: int, out: int, axis: TensorAxis | None, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, into))
        self.bias = nn.Parameter(torch.empty(out)) if bias else None
        self._axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, out], summed over tp."""
        if self._axis is None:
            return self.linear(x, self.bias)
        y = leave(self.linear(x, None), self._axis)
        return y if self.bias is None else y + self.bias


class Linear(LateWeights):
    """A linear layer that tp ranks hold whole and apply to what they have."""

    def __init__(self, into: int, out: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, into))
        self.bias = nn.Parameter(torch.empty(out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x W^T + b over the last dim."""
        return self.linear(x, self.bias)


class _RMSNorm(torch.autograd.Function):
    """Keeps its input and one number a row, on every device; torch's own keeps the scaled input too on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, scale)
        return weight * (wide * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        unit, grad = x.float() * scale, grads[0].float()
        inner = grad * weight.float()
        into = scale * (inner - unit * (inner * unit).mean(-1, keepdim=True))
        return into.to(x.dtype), (grad * unit).flatten(0, -2).sum(0).to(weight.dtype), None


class RMSNorm(nn.Module):
    """x over its root mean square, in float32 and cast, times a weight (Zhang and Sennrich 2019), over the last dim."""

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and type as `x`."""
        return _RMSNorm.apply(x, self.weight, self._eps)


class _SwiGLU(torch.autograd.Function):
    """Keeps its two inputs and computes the activation again, which autograd would keep beside them."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        share = torch.sigmoid(gate)
        active = gate * share
        return grads[0] * up * (share + active * (1 - share)), grads[0] * active


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) x up (Shazeer 2020)."""
    return _SwiGLU.apply(gate, up)


class VocabEmbedding(nn.Module):
    """An embedding whose rows are split over tp: `num_rows` are this rank's. `pad_id`'s row gets no gradient here."""

    def __init__(self, num_rows: int, width: int, axis: TensorAxis | None, *, pad_id: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_rows, width))
        self._axis = axis
        self._first = 0 if axis is None else axis.group_rank * num_rows
        is_mine = pad_id is not None and self._first <= pad_id < self._first + num_rows
        self._pad_row = pad_id - self._first if pad_id is not None and is_mine else None

    def forward(self, ids_BS: Tensor) -> Tensor:
        """[B, T, H]."""
        if self._axis is None:
            return F.embedding(ids_BS, self.weight, self._pad_row)
        inside = (ids_BS >= self._first) & (ids_BS < self._first + self.weight.shape[0])
        rows = F.embedding((ids_BS - self._first).masked_fill(~inside, 0), self.weight, self._pad_row)
        return leave(rows.masked_fill(~inside.unsqueeze(-1), 0.0), self._axis)


_NUM_PARTS = 8
"""Parts of a micro-batch's tokens whose loss is computed one after the other: float32 copies are of one part alone."""


class _TokenLosses(torch.autograd.Function):
    """Cross entropy of each token; over a vocabulary split over tp by Megatron-LM's small all-reduces.

    Keeps the logits and two numbers a token. Probabilities are float32 and computed twice, a part of the tokens at a
    time: there is never a whole float32 copy of the logits.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, labels_N: Tensor, axis: TensorAxis | None) -> Tensor:
        index, inside = labels_N, None
        top = logits_NV.amax(-1).float()
        if axis is not None:
            dist.all_reduce(top, op=dist.ReduceOp.MAX, group=axis.group)
            size = logits_NV.shape[-1]
            index = labels_N - axis.group_rank * size
            inside = (index >= 0) & (index < size)
            index = index.masked_fill(~inside, 0)
        sums = top.new_empty(2, len(top))
        for logits, tops, places, into in _parts(logits_NV, top, index, sums.t()):
            below = logits.float() - tops.unsqueeze(-1)
            into[:, 1] = below.gather(-1, places.unsqueeze(-1)).squeeze(-1)
            into[:, 0] = below.exp_().sum(-1)
        if axis is not None and inside is not None:
            sums[1].masked_fill_(~inside, 0.0)
            dist.all_reduce(sums, group=axis.group)
        ctx.save_for_backward(logits_NV, index, inside, top, sums[0])
        return sums[0].log() - sums[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        logits_NV, index, inside, top, total = ctx.saved_tensors
        found = torch.empty_like(logits_NV)
        wanted = -torch.ones_like(top) if inside is None else -inside.to(top.dtype)
        each = (logits_NV, top, total, index, wanted, grads[0], found)
        for logits, tops, totals, places, minus, factors, into in _parts(*each):
            soft = (logits.float() - tops.unsqueeze(-1)).exp_().div_(totals.unsqueeze(-1))
            soft.scatter_add_(-1, places.unsqueeze(-1), minus.unsqueeze(-1))
            torch.mul(soft, factors.unsqueeze(-1), out=into)
        return found, None, None


def _parts(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """The same share of the rows of each, part by part."""
    return zip(*(tensor.chunk(_NUM_PARTS) for tensor in tensors), strict=True)


def token_losses(logits_BSV: Tensor, labels_BS: Tensor, axis: TensorAxis | None) -> Tensor:
    """Cross entropy of each token in nats, float32 [B, S]. With an axis: all ranks of tp must call; blocks."""
    logits_NV, labels_N = logits_BSV.flatten(0, 1), labels_BS.flatten()
    if axis is None and logits_NV.dtype is torch.float32:
        return F.cross_entropy(logits_NV, labels_N, reduction="none").view_as(labels_BS)
    return _TokenLosses.apply(logits_NV, labels_N, axis).view_as(labels_BS)


def token_loss(
    logits_BSV: Tensor, labels_BS: Tensor, weights_BS: Tensor, axis: TensorAxis | None
) -> tuple[Tensor, Tensor]:
    """The `loss` of families over tokens, whose last block gives this rank's part of the vocabulary."""
    losses = token_losses(logits_BSV, labels_BS, axis)
    return (losses * weights_BS).sum(), weights_BS.sum()


def gather_vocabulary(logits_BSV: Tensor, axis: TensorAxis | None) -> Tensor:
    """Logits of the whole vocabulary from each rank's part. With an axis: all ranks of tp must call; blocks."""
    if axis is None:
        return logits_BSV
    parts = [torch.empty_like(logits_BSV) for _ in range(axis.size)]
    dist.all_gather(parts, logits_BSV.contiguous(), group=axis.group)
    return torch.cat(parts, dim=-1)
