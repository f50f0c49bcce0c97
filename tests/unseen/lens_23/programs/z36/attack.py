import torch
from torch.nn import functional as F


def worst_near(model, pictures, labels, far=0.3, rounds=3):
    """Pictures within `far` of the given ones that the model gets wrong most (signs of gradients)."""
    stride = 1.5 * far / rounds
    change = torch.empty_like(pictures).uniform_(-far, far).requires_grad_()
    for _ in range(rounds):
        loss = F.cross_entropy(model(pictures + change), labels)
        loss.backward()  #: LINE
        with torch.no_grad():
            change.add_(change.grad.sign(), alpha=stride).clamp_(-far, far)
        change.grad = None
    return pictures + change.detach()
