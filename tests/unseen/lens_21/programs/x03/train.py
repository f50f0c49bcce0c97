import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from clouds import Clouds, collate


class PointNet(nn.Module):
    def __init__(self, width=128, kinds=3):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                  nn.Linear(width, 2 * width), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, kinds))

    def forward(self, points):
        return self.all(self.each(points).amax(1))


class Run:
    def __init__(self, batch=40):
        torch.manual_seed(0)
        self.loader = DataLoader(Clouds(), batch_size=batch, shuffle=True, collate_fn=collate, drop_last=True)
        self.model = PointNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.times = []

    def step(self, points, kinds):
        loss = nn.functional.cross_entropy(self.model(points), kinds)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train(self, steps=60):
        began = time.perf_counter()
        while len(self.times) < steps:
            for batch in self.loader:
                self.loss = self.step(*batch)
                now = time.perf_counter()
                self.times.append(1e3 * (now - began))
                began = now
                if len(self.times) == steps:
                    break


if __name__ == "__main__":
    run = Run()
    run.train()
    times = run.times[3:]
    print(f"loss {run.loss.item():.6f} after {len(run.times)} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
