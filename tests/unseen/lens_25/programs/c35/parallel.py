import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class _Enter(torch.autograd.Function):
    """The same on all ranks going forward; the gradients of the ranks are summed coming back."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class _Leave(torch.autograd.Function):
    """Sums what the ranks found going forward; hands the gradient on coming back."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


enter, leave = _Enter.apply, _Leave.apply


class SplitAttention(nn.Module):
    """Each rank has its share of the heads."""

    def __init__(self, width, heads, ranks):
        super().__init__()
        self.heads = heads // ranks
        self.qkv = nn.Linear(width, 3 * width // ranks, bias=False)
        self.out = nn.Linear(width // ranks, width, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(enter(x)).chunk(3, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return leave(self.out(mixed.transpose(1, 2).flatten(2)))


class SplitFeedForward(nn.Module):
    def __init__(self, width, ranks):
        super().__init__()
        self.up = nn.Linear(width, 4 * width // ranks, bias=False)
        self.down = nn.Linear(4 * width // ranks, width, bias=False)

    def forward(self, x):
        return leave(self.down(F.gelu(self.up(enter(x)))))
