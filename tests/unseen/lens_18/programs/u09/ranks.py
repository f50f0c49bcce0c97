import torch
import torch.distributed as dist


def mean_gradients(model, extra):
    """All gradients and two numbers for the log travel in one message."""
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in grads] + [extra])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    *parts, extra = flat.split([g.numel() for g in grads] + [extra.numel()])
    for p, part in zip(model.parameters(), parts):
        p.grad = part.view_as(p)
    return extra
