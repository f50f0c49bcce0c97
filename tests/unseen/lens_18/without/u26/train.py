import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from rows import Readings, collate


class Wear(nn.Module):
    def __init__(self, sensors=8, width=1024):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(sensors, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2),
        )

    def forward(self, x):
        return self.net(x)


def forever(loader):
    while True:
        yield from loader


def main(steps=60, batch=192):
    torch.manual_seed(0)
    batches = forever(DataLoader(Readings(), batch, shuffle=True, drop_last=True, collate_fn=collate))
    net = Wear()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        values, wear = next(batches)
        loss = F.cross_entropy(net(values), wear)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
