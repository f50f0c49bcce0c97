import time

import numpy as np
import torch
import torch.nn as nn

from readout import DistanceReadout

ATOMS, BATCH, KINDS = 22, 144, 9


class Affinity(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.kind = nn.Embedding(KINDS, dim)
        self.mix = nn.ModuleList([nn.Sequential(nn.Linear(dim, 3 * dim), nn.SiLU(), nn.Linear(3 * dim, dim)) for _ in range(2)])
        self.readout = DistanceReadout(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, kinds, xyz):
        h = self.kind(kinds)
        for layer in self.mix:
            h = h + layer(h)
        return self.head(self.readout(h, xyz)).squeeze(-1)


def batches(n):
    g = torch.Generator().manual_seed(5)
    for _ in range(n):
        kinds = torch.randint(0, KINDS, (BATCH, ATOMS), generator=g)
        xyz = torch.randn(BATCH, ATOMS, 3, generator=g) * 2
        yield kinds, xyz, (kinds == 2).float().sum(1) - xyz.norm(dim=-1).mean(1)


def train():
    torch.manual_seed(1)
    net = Affinity()
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)
    took = []
    tick = time.time()
    for kinds, xyz, target in batches(65):
        opt.zero_grad()
        loss = nn.functional.smooth_l1_loss(net(kinds, xyz), target)
        loss.backward()
        opt.step()
        tock = time.time()
        took.append(1000 * (tock - tick))
        tick = tock
    took = np.array(took[3:])
    print(f"{np.median(took):.2f} ms/step median, {took.mean():.2f} ms/step")


if __name__ == "__main__":
    train()
