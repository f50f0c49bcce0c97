import statistics
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from heart import Windows, record


def network(leads=6, width=72):
    layers, inside = [], leads
    for stride in (1, 2, 2, 2):
        layers += [nn.Conv1d(inside, width, 7, stride, 3), nn.BatchNorm1d(width), nn.ReLU()]
        inside = width
    return nn.Sequential(*layers, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(width, 2))


def train(loader, steps):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    criterion = nn.CrossEntropyLoss()
    times, batches = [], iter(loader)
    for step in range(steps):
        start = time.perf_counter()
        signals, sick = next(batches)
        optimizer.zero_grad()
        loss = criterion(model(signals), sick)
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - start) * 1000)
    print(f"loss {loss.item():.6f}")
    return times[3:]


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        record(folder)
        times = train(DataLoader(Windows(folder), batch_size=16, shuffle=True), steps=60)
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
