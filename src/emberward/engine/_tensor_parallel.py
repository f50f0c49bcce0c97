"""Tensor parallelism with sequence parallelism, after Korthikanti et al. 2022, section 4.

[Note: tensor parallelism]
Parameters are DTensors on the tp axis: their layout is known to sharding, checkpoint and gradient norm. The maths runs
on local tensors with four explicit collectives a layer and direction, so that their order is that of the program text
and no dispatch decides it (DTensor's own dispatch costs more than the work at small sizes, and hides what it sends).

- Between sub-layers the residual stream is split over positions ([B, T, H], T = S / tp).
- A column-parallel layer gathers positions before it works; its backward reduce-scatters.
- A row-parallel layer reduce-scatters its partial sums over positions; its backward gathers.
- Norms and the biases of row-parallel layers see their own positions only, hence their gradients are partial sums over
  tp. They are summed once a step, after accumulation, in one flat all-reduce (see `_gradients.py`).
Without sequence parallelism the stream is whole on each rank: row-parallel layers all-reduce, column-parallel layers
all-reduce in the backward, and the norms' gradients are whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import functional as F

from emberward.engine._asked_for import is_dtensor
from emberward.engine._bloom import Attention, BloomStage, Head

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

# torch 2.13 renames these and warns at the old names; 2.11 has the old ones alone.
all_gather_flat = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_flat = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAxis:
    """The tp axis as this rank sees it."""

    mesh: DeviceMesh
    group: dist.ProcessGroup
    size: int
    group_rank: int
    sequence_parallel: bool


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
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _gather(x, group, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _reduce_scatter(grads[0], ctx.group, 1), None


class _ScatterPositions(torch.autograd.Function):
    """Partial [B, S, H] -> summed [B, T, H]; backward gathers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _reduce_scatter(x, group, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _gather(grads[0], ctx.group, 1), None


class _SumForward(torch.autograd.Function):
    """Partial -> summed; backward passes on (Megatron's g)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _SumBackward(torch.autograd.Function):
    """Passes on; backward sums (Megatron's f)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0].clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


def _enter(x: Tensor, axis: TensorAxis) -> Tensor:
    """What a column-parallel layer works on: all positions."""
    apply = _GatherPositions.apply if axis.sequence_parallel else _SumBackward.apply
    return apply(x, axis.group)


def _leave(x: Tensor, axis: TensorAxis) -> Tensor:
    """What a row-parallel layer gives back to the residual stream."""
    apply = _ScatterPositions.apply if axis.sequence_parallel else _SumForward.apply
    return apply(x, axis.group)


def local(param: Tensor) -> Tensor:
    """This rank's part of a DTensor for the maths, with the gradient split the same way; else the tensor itself."""
    return param.to_local() if is_dtensor(param) else param


def column_linear(module: nn.Linear, axis: TensorAxis) -> Callable[[Tensor], Tensor]:
    """Forward of a linear layer whose outputs are split over tp."""

    def forward(x_BTH: Tensor) -> Tensor:
        return F.linear(_enter(x_BTH, axis), local(module.weight), local(module.bias))

    return forward


def row_linear(module: nn.Linear, axis: TensorAxis) -> Callable[[Tensor], Tensor]:
    """Forward of a linear layer whose inputs are split over tp; the bias is added once, after the sum."""

    def forward(x: Tensor) -> Tensor:
        return _leave(F.linear(x, local(module.weight)), axis) + local(module.bias)

    return forward


def replicated_norm(module: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """Forward of a layer norm whose weights each rank holds whole."""

    def forward(x_BTH: Tensor) -> Tensor:
        return F.layer_norm(x_BTH, module.normalized_shape, local(module.weight), local(module.bias), module.eps)

    return forward


def vocab_embedding(module: nn.Embedding, axis: TensorAxis) -> Callable[[Tensor], Tensor]:
    """Forward of an embedding whose rows are split over tp."""

    def forward(ids_BS: Tensor) -> Tensor:
        weight = local(module.weight)
        first = axis.group_rank * weight.shape[0]
        inside = (ids_BS >= first) & (ids_BS < first + weight.shape[0])
        rows = F.embedding((ids_BS - first).masked_fill(~inside, 0), weight)
        return _leave(rows.masked_fill(~inside.unsqueeze(-1), 0.0), axis)

    return forward


def vocab_head(module: Head, axis: TensorAxis) -> Callable[[Tensor], Tensor]:
    """Forward of the head: logits [B, S, V] of this rank's vocabulary entries."""

    def forward(x_BTH: Tensor) -> Tensor:
        return F.linear(_enter(x_BTH, axis), local(module.weight))

    return forward


class _VocabCrossEntropy(torch.autograd.Function):
    """Per-token cross entropy over a vocabulary split over tp; Megatron-LM's three small all-reduces."""

    @staticmethod
    def forward(ctx: Any, logits_BSV: Tensor, labels_BS: Tensor, axis: TensorAxis) -> Tensor:
        logits = logits_BSV.float()
        top = logits.amax(-1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=axis.group)
        logits = logits - top.unsqueeze(-1)
        size = logits.shape[-1]
        index = labels_BS - axis.group_rank * size
        inside = (index >= 0) & (index < size)
        index = index.masked_fill(~inside, 0)
        wanted = logits.gather(-1, index.unsqueeze(-1)).squeeze(-1).masked_fill(~inside, 0.0)
        exp = logits.exp()
        sums = torch.stack((exp.sum(-1), wanted))
        dist.all_reduce(sums, group=axis.group)
        ctx.save_for_backward(exp / sums[0].unsqueeze(-1), index, inside)
        ctx.dtype = logits_BSV.dtype
        return sums[0].log() - sums[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        soft, index, inside = ctx.saved_tensors
        grad = soft.clone()
        grad.scatter_add_(-1, index.unsqueeze(-1), -inside.unsqueeze(-1).to(grad.dtype))
        return (grad * grads[0].unsqueeze(-1)).to(ctx.dtype), None, None


def token_losses(logits_BSV: Tensor, labels_BS: Tensor, axis: TensorAxis | None) -> Tensor:
    """Cross entropy of each token in nats, float32 [B, S]. With an axis: all ranks of tp must call; blocks."""
    if axis is None:
        return F.cross_entropy(logits_BSV.float().flatten(0, 1), labels_BS.flatten(), reduction="none").view_as(
            labels_BS
        )
    return _VocabCrossEntropy.apply(logits_BSV, labels_BS, axis)


def _place(stage: nn.Module, axis: TensorAxis, placements: "dict[str, Placement]") -> None:
    """Turns each parameter into a DTensor, once: a tied one keeps its identity."""
    # See `_asked_for.py` [Note: what a layout does not need].
    from torch.distributed.tensor import Replicate, distribute_tensor

    done: dict[int, nn.Parameter] = {}
    for prefix, module in stage.named_modules():
        for name, param in list(module.named_parameters(recurse=False)):
            full = f"{prefix}.{name}" if prefix else name
            if id(param) not in done:
                placement = placements.get(full, Replicate())
                done[id(param)] = nn.Parameter(
                    distribute_tensor(param.data, axis.mesh, [placement], src_data_rank=None)
                )
            setattr(module, name, done[id(param)])


def parallelize_bloom(stage: BloomStage, axis: TensorAxis) -> None:
    """Splits `stage` over the tp axis in place. All ranks of the group must call; does not communicate."""
    # See `_asked_for.py` [Note: what a layout does not need].
    from torch.distributed.tensor import Shard

    placements: dict[str, Placement] = {}
    forwards: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = []
    for prefix, module in stage.named_modules():
        match module:
            case nn.LayerNorm():
                forwards.append((module, replicated_norm(module)))
            case nn.Embedding():
                placements[f"{prefix}.weight"] = Shard(0)
                forwards.append((module, vocab_embedding(module, axis)))
            case Head():
                placements[f"{prefix}.weight"] = Shard(0)
                forwards.append((module, vocab_head(module, axis)))
            case nn.Linear() if prefix.endswith((".qkv", ".up")):
                placements[f"{prefix}.weight"] = placements[f"{prefix}.bias"] = Shard(0)
                forwards.append((module, column_linear(module, axis)))
            case nn.Linear():
                placements[f"{prefix}.weight"] = Shard(1)
                forwards.append((module, row_linear(module, axis)))
            case Attention():
                module.first_head = axis.group_rank * (len(module.slopes) // axis.size)
    _place(stage, axis, placements)
    for module, forward in forwards:
        module.forward = forward
