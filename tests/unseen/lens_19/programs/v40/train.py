import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from buoys import Buoys, collate


class Waves(nn.Module):
    def __init__(self, sensors=20, width=176):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(sensors, width, 5, 1, 2), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(4 * width, 1),
        )

    def forward(self, x):
        return self.net(x.transpose(1, 2)).squeeze(1)


def forever(loader):
    while True:
        yield from loader


def main(steps=60, batch=96):
    torch.manual_seed(0)
    batches = forever(DataLoader(Buoys(), batch, shuffle=True, drop_last=True, collate_fn=collate))
    net = Waves()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        readings, height = next(batches)
        loss = F.mse_loss(net(readings), height)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
