import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def spread(model):
    return DistributedDataParallel(model, broadcast_buffers=False)


@torch.no_grad()
def average_gradients(model):
    """The same gradient on all ranks."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    torch._foreach_copy_(grads, [part.view_as(grad) for part, grad in zip(flat.split([g.numel() for g in grads]), grads)])
