"""A table of which each rank holds a part of the rows."""

import torch
import torch.distributed as dist


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        whole = part.new_empty(part.shape[0] * dist.get_world_size(), part.shape[1])
        dist.all_gather_into_tensor(whole, part.contiguous())
        return whole

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()] / dist.get_world_size()


class Table(torch.nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.part = torch.nn.Parameter(torch.randn(rows // dist.get_world_size(), dim) * 0.05)

    def full(self):
        return _Gather.apply(self.part)
