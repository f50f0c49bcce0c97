import copy

import torch
from torch import nn
from torch.nn import functional as F


def stage(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride=2, padding=1), nn.BatchNorm2d(outside), nn.ReLU())


def mlp(inside, outside, width=256):
    return nn.Sequential(nn.Linear(inside, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, outside))


class BYOL(nn.Module):
    def __init__(self, width=48, dim=64):
        super().__init__()
        self.online = nn.Sequential(
            stage(3, width), stage(width, 2 * width), stage(2 * width, 4 * width), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), mlp(4 * width, dim),
        )
        self.slow = copy.deepcopy(self.online).requires_grad_(False)
        self.predictor = mlp(dim, dim)

    @torch.no_grad()
    def follow(self, rate=0.01):
        torch._foreach_lerp_(list(self.slow.parameters()), list(self.online.parameters()), rate)

    def forward(self, one, two):
        goal_one, goal_two = self.online(one), self.online(two)
        first, second = self.predictor(goal_one), self.predictor(goal_two)
        return 2 - F.cosine_similarity(first, goal_two).mean() - F.cosine_similarity(second, goal_one).mean()
