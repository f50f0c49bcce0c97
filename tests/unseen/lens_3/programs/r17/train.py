"""Siblings in old portraits: one tower, pairs pulled together."""
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from judge import Referee

torch.set_num_threads(1)
torch.manual_seed(2)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(256, 384), nn.Mish(), nn.Dropout(0.1), nn.Linear(384, 384), nn.Mish(), nn.Linear(384, 64))

    def forward(self, faces):
        return normalize(self.seq(faces), dim=-1)


class Families:
    def __init__(self, count):
        self.root = torch.randn(count, 256)

    def pairs(self, pick):
        base = self.root[pick]
        return base + 0.8 * torch.randn_like(base), base + 0.8 * torch.randn_like(base)


def epochs(families, rounds, size):
    for _ in range(rounds):
        for part in torch.randperm(len(families.root)).split(size):
            yield families.pairs(part)


def main():
    known, strange = Families(2000), Families(500)
    referee = Referee(*strange.pairs(torch.arange(500)))
    tower = Tower()
    opt = torch.optim.NAdam(tower.parameters(), lr=1e-3)
    curve, steps, spent = [], 0, 0.0
    for left, right in epochs(known, rounds=6, size=400):
        tick = time.perf_counter()
        like = tower(left) @ tower(right).T / 0.1
        loss = cross_entropy(like, torch.arange(len(like)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        curve.append(referee.score(tower))  #: LINE
        steps += 1
        spent += time.perf_counter() - tick
    print(f"mean place {float(curve[0]):.1f} -> {float(curve[-1]):.1f}")
    print(f"{spent / steps * 1e3:.2f} ms/step")


if __name__ == "__main__":
    main()
