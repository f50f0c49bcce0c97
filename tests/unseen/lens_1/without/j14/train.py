import time

import accel
import torch
from timers import timer, totals
from torch import nn


def load_graph(n):
    """Neighbour sampling on the host."""
    edges = torch.randint(0, n, (2, 30 * n))
    keys = (edges[0] * n + edges[1]).sort().values
    keep = torch.ones_like(keys, dtype=torch.bool)
    keep[1:] = keys[1:] != keys[:-1]
    degree = torch.zeros(n).scatter_add_(0, keys[keep] // n, torch.ones(int(keep.sum())))
    return torch.randn(n, 16) / (1 + degree[:, None])


class Gnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 48)
        self.b = nn.Linear(48, 16)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def main():
    model = accel.attach(Gnn(), 9.0, 18.0)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 36
    for step in range(steps):
        if step == 2:
            accel.stream.synchronize()
            t0 = time.perf_counter()
        with timer("load"):
            x = accel.to_device(load_graph(4000))
        with timer("forward"):
            loss = (model(x) - x).square().mean()
        with timer("backward"):
            opt.zero_grad()
            loss.backward()
            opt.step()
    accel.stream.synchronize()
    ms = (time.perf_counter() - t0) / (steps - 2) * 1e3
    print(" ".join(f"{k} {v:.2f}s" for k, v in totals.items()), f"{ms:.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
