"""Into the part of the network that is cut over the ranks, and out of it."""
import torch
import torch.distributed as dist


class Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, slope):
        slope = slope.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(slope)
        return slope


class Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        ctx.mark_dirty(part)
        dist.all_reduce(part)
        return part

    @staticmethod
    def backward(ctx, slope):
        return slope


enter, join = Enter.apply, Join.apply
