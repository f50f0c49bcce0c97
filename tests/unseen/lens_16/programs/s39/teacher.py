import copy

import torch
from torch import nn


class Student(nn.Module):
    def __init__(self, width=40, classes=12):
        super().__init__()
        layers, a = [], 3
        for b in (width, 2 * width, 3 * width):
            layers += [nn.Conv2d(a, b, 3, stride=2 if a > 3 else 1, padding=1), nn.GroupNorm(4, b), nn.ReLU()]
            a = b
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(a, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class MeanTeacher:
    def __init__(self, student, decay=0.99):
        self.net = copy.deepcopy(student).requires_grad_(False).eval()
        self.pairs = [list(self.net.parameters()), [p.detach() for p in student.parameters()]]
        self.decay = decay

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(*self.pairs, 1 - self.decay)

    @torch.no_grad()
    def __call__(self, x):
        return self.net(x)
