import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor


@torch.no_grad()
def gradient_norm(model):
    """The norm of the whole gradient, as one number, on every rank."""
    whole = split = 0.0
    for p in model.parameters():
        if isinstance(p.grad, DTensor):
            split += p.grad.to_local().square().sum()
        else:
            whole += p.grad.square().sum()
    dist.all_reduce(split)
    return (whole + split).sqrt()
