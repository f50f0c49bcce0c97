import os
import statistics
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from shards import Curves, record


def network(width=64, kinds=6):
    return nn.Sequential(
        nn.Conv1d(1, width, 7, 1, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 1, 2), nn.ReLU(),
        nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.Conv1d(2 * width, 2 * width, 5, 1, 2), nn.ReLU(),
        nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(2 * width, kinds),
    )


def endless(loader):
    while True:
        yield from loader


def main(steps=60, batch=32):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "curves.npz")
        record(path)
        batches = endless(DataLoader(Curves(path), batch_size=batch, shuffle=True, drop_last=True))
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        times = []
        for step in range(steps):
            began = time.perf_counter()
            curves, kinds = next(batches)
            loss = F.cross_entropy(model(curves), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
