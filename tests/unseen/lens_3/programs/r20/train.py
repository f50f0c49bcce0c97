"""Bacteria grow on a plate: a neural rule for the cells, unrolled in time."""
import time

import torch
from torch import nn

from logbook import journal

torch.set_num_threads(1)
torch.manual_seed(17)
log = journal()


class Rule(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.look = nn.Conv2d(channels, 24, 3, padding=1)
        self.act = nn.Conv2d(24, channels, 1)
        nn.init.zeros_(self.act.weight)

    def forward(self, plate):
        time.sleep(0.004)                        # kernels elsewhere
        return plate + self.act(torch.relu(self.look(plate)))


def grow(rule, plate, times):
    for _ in range(times):
        plate = rule(plate)
    return plate


def main(steps=30):
    rule = Rule()
    opt = torch.optim.Adam(rule.parameters(), lr=2e-3)
    disc = ((torch.arange(20) - 10) ** 2).view(1, 20) + ((torch.arange(20) - 10) ** 2).view(20, 1)
    goal = (disc < 40).float()
    start = time.perf_counter()
    for step in range(steps):
        seed = torch.zeros(4, 8, 20, 20)
        seed[:, :, 10, 10] = 1.0
        plate = grow(rule, seed, times=10)
        loss = (plate[:, 0] - goal).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(rule.parameters(), 1.0)
        opt.step()
        log.info("step %d: loss %.5f", step, loss.item())  #: LINE
        log.info("step %d: gradient %.5f, cells %d", step, norm.item(), (plate[:, 0] > 0.5).sum().item())
    ms = (time.perf_counter() - start) / steps * 1e3
    print(f"loss {loss.item():.5f}")
    print(f"{ms:.2f} ms/step")


main()
