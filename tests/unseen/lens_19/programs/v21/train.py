import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from steps import Walks, collate


class Gait(nn.Module):
    def __init__(self, axes=6, kinds=8, width=144):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(axes, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(width, width, 5, 1, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, kinds),
        )

    def forward(self, x):
        return self.net(x)


def forever(loader):
    while True:
        yield from loader


def main(steps=60, batch=72):
    torch.manual_seed(0)
    batches = forever(DataLoader(Walks(), batch, shuffle=True, drop_last=True, collate_fn=collate))
    net = Gait()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        signal, kind = next(batches)
        loss = F.cross_entropy(net(signal), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
