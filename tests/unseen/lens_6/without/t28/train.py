"""A tower of feed-forward blocks."""
import statistics
import time

import torch

from blocks import Tower

STEPS = 60


def main():
    torch.manual_seed(0)
    model = Tower(width=48, depth=6, save_memory=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    generator = torch.Generator().manual_seed(23)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(32, 48, generator=generator)
        loss = (model(x) - x.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
