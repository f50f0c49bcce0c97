import statistics
import time

import torch
from torch.nn import functional as F

from memory import Collector
from stamps import StampNet


def main(steps=60, batch=40):
    torch.manual_seed(0)
    net = StampNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    year = torch.randn(1000)
    pictures = torch.randn(1000, 3, 48, 48) + year[:, None, None, None]
    collector = Collector()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1000, (batch,))
        loss = F.smooth_l1_loss(net(pictures[picked]), year[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        collector.after(step)
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
