"""Digits by a plain network, with the running loss on the screen."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from data import Digits

STEPS = 60


def train_step(model, optimizer, x, labels):
    y = torch.tensor(labels)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()  #: LINE


def main():
    torch.manual_seed(0)
    digits = Digits(batch=256, width=784)
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x, labels = digits.next()
        loss = train_step(model, optimizer, x, labels)
        print(f"step {step} loss {loss:.4f}")
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
