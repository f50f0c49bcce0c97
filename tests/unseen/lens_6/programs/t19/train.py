"""An autoencoder with checkpoints."""
import statistics
import time

import torch
from torch import nn

from checkpoint import Checkpoint
from kernels import Middle

STEPS = 60


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(784, 640), nn.ReLU(), nn.Linear(640, 64))
        self.decode = nn.Sequential(nn.Linear(64, 640), nn.ReLU(), nn.Linear(640, 784))

    def forward(self, x):
        return self.decode(Middle.apply(self.encode(x)))


def main():
    torch.manual_seed(0)
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checkpoint = Checkpoint(model, optimizer, every=1)
    generator = torch.Generator().manual_seed(12)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.rand(16, 784, generator=generator)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        checkpoint.after_step(step)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"loss {loss:.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
