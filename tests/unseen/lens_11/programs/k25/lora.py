"""Low-rank additions to frozen linear layers."""
import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.a.T) @ self.b.T


def additions(model):
    return {k: v.detach() for k, v in model.named_parameters() if v.requires_grad}
