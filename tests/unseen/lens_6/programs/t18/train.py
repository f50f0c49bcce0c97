"""Online learning: a thread draws examples, the training takes one a step."""
import statistics
import time

import torch
from torch import nn

from feeder import Feeder

STEPS = 60


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feeder = Feeder(ahead=8)
    noise = torch.Generator().manual_seed(2)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        row = torch.tensor(feeder.take())
        x = row + 0.1 * torch.randn(288, 32, generator=noise)
        loss = (model(x) - row).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"loss {loss:.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
