import torch


def gradient_norm(model):
    """Length of the whole gradient, the same number on every rank."""
    norms = [parameter.grad.full_tensor().norm() for parameter in model.parameters()]  #: LINE
    return torch.stack(norms).norm()
