import torch
import torch.distributed as dist


def average(parameters):
    """The mean of the gradients over all ranks."""
    world = dist.get_world_size()
    grads = [p.grad for p in parameters]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= world
    for g, mean in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(mean.view_as(g))
