import statistics
import time

import torch
from torch import nn

from run import Run


class Flow(nn.Module):
    """Half of the numbers shifts and stretches the other half, in turns."""

    def __init__(self, numbers=48, width=256, depth=4):
        super().__init__()
        half = numbers // 2
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(half, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * half))
            for _ in range(depth)
        )

    def forward(self, x):
        a, b = x.chunk(2, 1)
        volume = 0.0
        for net in self.nets:
            shift, stretch = net(a).chunk(2, 1)
            stretch = stretch.tanh()
            a, b = b * stretch.exp() + shift, a
            volume = volume + stretch.sum(1)
        return (0.5 * (a.square().sum(1) + b.square().sum(1)) - volume).mean()


def main(steps=60, batch=1000):
    torch.manual_seed(0)
    flow = Flow()
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3, fused=True)
    points = torch.randn(8000, 48).cumsum(1) / 5
    run = Run()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = flow(points[torch.randint(0, 8000, (batch,))])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.note(loss.detach())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {run.losses[-1].item():.4f}, {len(run.memory)} readings")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
