import logging
import statistics
import time

import torch
from torch.nn import functional as F

from tides import Tides


def harbour(hours=20000):
    t = torch.arange(hours) / 12.42
    level = torch.sin(6.283 * t) + 0.4 * torch.sin(3.2 * t)
    return torch.stack([level, level.roll(3), torch.cos(6.283 * t), 0.1 * torch.randn(hours)])


def main(steps=60, batch=24, window=96):
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(0)
    series, net = harbour(), Tides()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        at = torch.randint(0, series.shape[1] - window - 6, (batch, 1)) + torch.arange(window)
        loss = F.mse_loss(net(series[:, at].transpose(0, 1)), series[0][at + 6])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
