import torch
from torch import nn


def molecules(count, atoms=28):
    x = torch.randn(count, atoms, 16)
    near = (torch.rand(count, atoms, atoms) < 0.12).float()
    near = ((near + near.transpose(1, 2)) > 0).float()
    return x, near / near.sum(-1, keepdim=True).clamp(min=1), (x[..., 0].mean(1) > 0).float()


class Binding(nn.Module):
    def __init__(self, width=160, rounds=4):
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.self_part = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.near_part = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.out = nn.Linear(width, 1)

    def forward(self, x, edges):
        h = self.enter(x)
        for own, near in zip(self.self_part, self.near_part):
            h = torch.relu(own(h) + near(edges @ h)) + h
        return self.out(h.mean(1)).squeeze(-1)
