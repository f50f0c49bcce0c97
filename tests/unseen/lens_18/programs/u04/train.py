import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from gait import walks


class Walker(nn.Module):
    def __init__(self, width=144):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(6, width, 7, padding=3), nn.GELU(), nn.Conv1d(width, width, 7, padding=3), nn.GELU(),
            nn.Conv1d(width, width, 7, stride=2, padding=3), nn.GELU(),
        )
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        return self.out(self.net(x).mean(2))


def main(steps=60, batch=40):
    torch.manual_seed(0)
    batches, net = walks(batch), Walker()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        walk, who = next(batches)
        loss = F.cross_entropy(net(walk), who)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
