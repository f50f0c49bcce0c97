"""Prices of used machines from forty features. Debug lines are off in production (level INFO)."""

import logging
import statistics
import time

import torch
from torch import nn

from machines import auction
from watch import watch_gradients

log = logging.getLogger("prices")


def build():
    layers, width = [], 40
    for _ in range(5):
        layers += [nn.Linear(width, 640), nn.LayerNorm(640), nn.GELU()]
        width = 640
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    torch.manual_seed(0)
    net = build()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    took = []
    for step in range(80):
        t0 = time.perf_counter()
        x, price = auction(256, step)
        loss = nn.functional.smooth_l1_loss(net(x), price)
        optimizer.zero_grad()
        loss.backward()
        watch_gradients(log, net, step)
        optimizer.step()
        took.append(1e3 * (time.perf_counter() - t0))
    log.info("loss %.4f", loss.item())
    print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
