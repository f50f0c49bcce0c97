"""Handwritten signs from pen strokes (JSON, as the tablet sends them), drawn onto a small canvas."""

import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from strokes import Strokes


def build():
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 56, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(896, 10),
    )


def main():
    torch.manual_seed(5)
    net = build()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(Strokes(2560), batch_size=32, shuffle=True)
    steps, clock = [], time.perf_counter()
    for picture, sign in loader:
        loss = nn.functional.cross_entropy(net(picture), sign)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(time.perf_counter() - clock)
        clock = time.perf_counter()
    print(f"loss {loss.item():.3f}")
    print(f"{1e3 * statistics.median(steps):.2f} ms/step median, {1e3 * statistics.mean(steps):.2f} ms/step")


if __name__ == "__main__":
    main()
