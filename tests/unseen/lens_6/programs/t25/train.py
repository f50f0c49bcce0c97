"""A classifier that keeps the recall of its classes up to date."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from report import Confusion

STEPS = 60


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(400, 1200), nn.ReLU(), nn.Linear(1200, 800), nn.ReLU(), nn.Linear(800, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    confusion = Confusion(8)
    generator = torch.Generator().manual_seed(19)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(176, 400, generator=generator)
        y = x[:, :8].argmax(1)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        confusion.update(logits.argmax(1), y)
        worst = min(confusion.recall())
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"worst recall {worst:.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
