import torch
import torch.distributed as dist
from torch import nn


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard):
        world = dist.get_world_size()
        full = shard.new_empty(shard.shape[0] * world, *shard.shape[1:])
        dist.all_gather_into_tensor(full, shard.contiguous())
        return full

    @staticmethod
    def backward(ctx, grad):
        world = dist.get_world_size()
        out = grad.new_empty(grad.shape[0] // world, *grad.shape[1:])
        dist.reduce_scatter_tensor(out, grad.contiguous())
        return out / world


class ShardedLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        rows = n_out // dist.get_world_size()
        self.shard = nn.Parameter(torch.randn(rows, n_in) * n_in**-0.5)

    def full(self):
        return Gather.apply(self.shard)

    def forward(self, x):
        w = self.full()
        y = x @ w.t()
        gram_penalty = self.full().square().sum(1).sub(1).square().mean()  #: LINE
        return y, gram_penalty
