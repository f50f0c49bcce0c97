"""Family trees (Python objects that point at each other); frozen for the collector, which we call every fifth step."""

import gc
import statistics
import time

import torch
from torch import nn

from trees import grow


def main():
    torch.manual_seed(0)
    people = grow(2500)
    age = torch.tensor([p.age for p in people])
    net = nn.Sequential(nn.Linear(48, 480), nn.ReLU(), nn.Linear(480, 480), nn.ReLU(), nn.Linear(480, 480), nn.ReLU(), nn.Linear(480, 1))
    optimizer = torch.optim.RMSprop(net.parameters(), lr=3e-4)
    gc.collect()
    gc.freeze()
    took = []
    for step in range(120):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step)
        who = torch.randint(0, len(people), (512,), generator=rng)
        y = age[who, None]
        x = y * torch.linspace(-1, 1, 48) + 0.2 * torch.randn(512, 48, generator=rng)
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            gc.collect()
        took.append(1e3 * (time.perf_counter() - t0))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
