"""A classifier that is looked at every 15 steps."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from held_out import HeldOut

STEPS = 60


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    held_out = HeldOut(rows=64, width=300)
    generator = torch.Generator().manual_seed(14)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(208, 300, generator=generator)
        loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 14:
            print(f"step {step + 1} accuracy {held_out.accuracy(model):.3f}")  #: LINE
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
