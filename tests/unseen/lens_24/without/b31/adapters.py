import torch
from torch import nn
from torch.nn import functional as F


class LowRank(nn.Module):
    """A frozen linear layer with a trained addition of low rank."""

    def __init__(self, base, rank, scale=2.0):
        super().__init__()
        self.base, self.scale = base.requires_grad_(False), scale
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.down), self.up)


def adapt(model, rank):
    """Puts an addition to each linear layer; everything else is frozen."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, LowRank(child, rank))
    return model
