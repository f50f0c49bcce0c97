"""Forecast of a town's water use by the hour. One line of progress a step."""

import statistics
import time

import torch
from torch import nn

from meterdata import window


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(4, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2), nn.ReLU())
        self.out = nn.Linear(64, 8)

    def forward(self, x):
        return self.out(self.conv(x).mean(2))


def main():
    torch.manual_seed(0)
    model = Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    seconds, average = [], None
    for step in range(100):
        t0 = time.perf_counter()
        x, y = window(step)
        error = (model(x) - y).square().mean(0)
        loss = error.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        average = value if average is None else 0.9 * average + 0.1 * value
        print(f"step {step} loss {value:.4f} average {average:.4f} by zone", [round(e, 3) for e in error.tolist()])
        seconds.append(time.perf_counter() - t0)
    print(f"{1e3 * statistics.median(seconds):.2f} ms/step median, {1e3 * statistics.mean(seconds):.2f} ms/step")


main()
