"""Handwritten letters, one small convolutional net."""
import statistics
import time

import torch
from torch import nn


def data(n):
    y = torch.randint(0, 26, (n,))
    base = torch.randn(26, 1, 32, 32)
    return base[y] + 0.7 * torch.randn(n, 1, 32, 32), y


torch.manual_seed(26)
X, Y = data(96 * 10)
model = nn.Sequential(
    nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(48 * 64, 26),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
seen, right, ms = 0, 0, []
for step in range(64):
    t0 = time.perf_counter()
    rows = slice(step % 10 * 96, (step % 10 + 1) * 96)
    out = model(X[rows])
    loss = nn.functional.cross_entropy(out, Y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ms.append((time.perf_counter() - t0) * 1000)
print(f"{statistics.median(ms[3:]):.2f} ms/step median, {statistics.mean(ms[3:]):.2f} ms/step")
