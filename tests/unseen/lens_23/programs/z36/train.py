import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from attack import worst_near


def stamps(count=3000, kinds=9):
    """Pictures of postmarks and the town of each."""
    kind = torch.randint(0, kinds, (count,))
    return 0.6 * torch.randn(kinds, 1, 16, 16)[kind] + torch.randn(count, 1, 16, 16), kind


def reader(kinds=9, width=1024):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, kinds),
    )


def main(steps=60, batch=64):
    torch.manual_seed(0)
    pictures, towns = stamps()
    model = reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(towns), (batch,))
        town = towns[picked]
        hard = worst_near(model, pictures[picked], town)
        loss = F.cross_entropy(model(hard), town)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
