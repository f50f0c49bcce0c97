"""A table of embeddings of which each rank holds a part of the rows."""
import torch
import torch.distributed as dist
from torch import nn


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]


class ShardedTable(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.part = nn.Parameter(torch.randn(rows // dist.get_world_size(), width) / width**0.5)

    def full(self):
        return Gather.apply(self.part)
