import torch
import torch.distributed as dist
from torch import nn


class _Copy(torch.autograd.Function):
    """The same on each rank; the gradients of all ranks are added up."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad


class _Sum(torch.autograd.Function):
    """Adds up what the ranks have."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class SplitMLP(nn.Module):
    def __init__(self, width, inner, ranks):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner // ranks), nn.Linear(inner // ranks, width, bias=False)

    def forward(self, x):
        return _Sum.apply(self.down(nn.functional.relu(self.up(_Copy.apply(x)))))


class SplitAttention(nn.Module):
    def __init__(self, width, heads, ranks):
        super().__init__()
        self.heads = heads // ranks
        self.qkv, self.out = nn.Linear(width, 3 * width // ranks), nn.Linear(width // ranks, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(_Copy.apply(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return _Sum.apply(self.out(mixed.transpose(1, 2).flatten(2)))
