"""A mixer net learns to order shuffled postcards."""
import logging
import time

import torch
from torch import nn

from watch import Lazily, log, portrait

logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
torch.set_num_threads(1)
torch.manual_seed(13)
STEPS, CARDS, DIM = 26, 8, 192


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.across = nn.Linear(CARDS, CARDS)
        self.along = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x):
        x = x + self.across(x.transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm(x))


class Sorter(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Mixer() for _ in range(depth))
        self.place = nn.Linear(DIM, CARDS)

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return self.place(x)


def shuffled(n):
    cards = torch.arange(CARDS).float().view(1, CARDS, 1) + 0.1 * torch.randn(n, CARDS, DIM)
    order = torch.stack([torch.randperm(CARDS) for _ in range(n)])
    return cards.gather(1, order.unsqueeze(-1).expand(-1, -1, DIM)), order


net = Sorter()
opt = torch.optim.Adam(net.parameters(), lr=3e-4)
begin = time.perf_counter()
for step in range(STEPS):
    cards, order = shuffled(48)
    loss = nn.functional.cross_entropy(net(cards).flatten(0, 1), order.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.debug("after step %d:\n%s", step, Lazily(portrait, net))
    if step % 10 == 0:
        log.info("step %d loss %.4f", step, float(loss))
ms = (time.perf_counter() - begin) / STEPS * 1e3
print(f"{ms:.2f} ms/step")
