import torch
import torch.distributed as dist


@torch.no_grad()
def begin_alike(model):
    for p in model.parameters():
        dist.broadcast(p, 0)


@torch.no_grad()
def average_gradients(model):
    """The mean gradient, on every rank."""
    size = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad)  #: LINE
        p.grad /= size
