import torch
import torch.distributed as dist
from torch import nn


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        whole = part.new_empty(part.shape[0] * dist.get_world_size(), *part.shape[1:])
        dist.all_gather_into_tensor(whole, part.contiguous())
        return whole

    @staticmethod
    def backward(ctx, grad):
        part = grad.new_empty(grad.shape[0] // dist.get_world_size(), *grad.shape[1:])
        dist.reduce_scatter_tensor(part, grad.contiguous())
        return part / dist.get_world_size()


class Table(nn.Module):
    """Vectors of the words. Each rank keeps its part of the rows; the same table reads and writes."""

    def __init__(self, words, width, scale=0.05):
        super().__init__()
        whole = scale * torch.randn(words, width)
        self.part = nn.Parameter(whole.chunk(dist.get_world_size())[dist.get_rank()].clone())

    def whole(self):
        return Gather.apply(self.part)
