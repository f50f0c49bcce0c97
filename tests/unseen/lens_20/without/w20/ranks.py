import torch
import torch.distributed as dist


@torch.no_grad()
def begin_alike(model):
    for p in model.parameters():
        dist.broadcast(p, 0)


@torch.no_grad()
def average_gradients(model):
    """The mean gradient, on every rank."""
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    parts = flat.split([grad.numel() for grad in grads])
    torch._foreach_copy_(grads, [part.view_as(grad) for part, grad in zip(parts, grads)])
