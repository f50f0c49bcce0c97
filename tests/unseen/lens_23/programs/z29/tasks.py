import torch
from torch import nn
from torch.nn import functional as F


class Rider(nn.Module):
    """How long a ride takes and whether it is called off, from one trunk."""

    def __init__(self, facts=96, width=640):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(facts, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
        )
        self.minutes, self.off = nn.Linear(width, 1), nn.Linear(width, 1)

    def losses(self, facts, minutes, off):
        seen = self.trunk(facts)
        yield F.smooth_l1_loss(self.minutes(seen).squeeze(1), minutes)
        yield F.binary_cross_entropy_with_logits(self.off(seen).squeeze(1), off)


def without_conflict(first, second, trunk, heads):
    """Gradients of two losses: where those of the trunk pull against each other, that part is taken out of both."""
    one = torch.autograd.grad(first, trunk + heads[0], retain_graph=True)
    two = torch.autograd.grad(second, trunk + heads[1])
    n = len(trunk)
    a, b = (torch.cat([part.flatten() for part in parts[:n]]) for parts in (one, two))
    dot = torch.dot(a, b).clamp(max=0)
    both = a.add(b)
    both.addcmul_(a, dot / a.dot(a), value=-1).addcmul_(b, dot / b.dot(b), value=-1)
    for weight, grad in zip(trunk, both.split([weight.numel() for weight in trunk])):
        weight.grad = grad.view_as(weight)
    for weight, grad in zip(heads[0] + heads[1], one[n:] + two[n:]):
        weight.grad = grad
