"""A table cut by rows: each rank owns a share, the whole is put together when it is needed."""
import torch
import torch.distributed as dist


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, share):
        world = dist.get_world_size()
        whole = share.new_empty(world * share.shape[0], share.shape[1])
        dist.all_gather_into_tensor(whole, share.contiguous())
        return whole

    @staticmethod
    def backward(ctx, grad):
        world = dist.get_world_size()
        own = grad.new_empty(grad.shape[0] // world, grad.shape[1])
        dist.reduce_scatter_tensor(own, grad.contiguous())
        return own / world


class RowTable(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        world = dist.get_world_size()
        self.share = torch.nn.Parameter(torch.randn(rows // world, columns) * 0.02)

    def whole(self):
        return Gather.apply(self.share)
