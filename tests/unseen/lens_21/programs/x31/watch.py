import torch
from torch.distributed.tensor import DTensor


@torch.no_grad()
def gradient_norm(model):
    """The norm of the whole gradient, as one number, on every rank."""
    total = 0.0
    for p in model.parameters():
        grad = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad  #: LINE
        total += grad.square().sum()
    return total.sqrt()
