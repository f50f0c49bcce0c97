import argparse
import statistics
import time

import torch
import torch.nn as nn

from best import BestWeights


class Heartbeat(nn.Module):
    """Counts heart beats from the brightness traces of a larva's regions."""

    def __init__(self, regions, samples, hidden):
        super().__init__()
        self.filter = nn.Conv1d(regions, 64, 9, padding=4)
        self.body = nn.Sequential(nn.Linear(64 * samples // 4, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        x = torch.relu(self.filter(x))
        x = nn.functional.avg_pool1d(x, 4)
        return self.body(x.flatten(1)).squeeze(1)


def traces(n, regions, samples):
    rate = torch.rand(n) * 2 + 1
    t = torch.linspace(0, 4, samples)
    wave = torch.sin(6.28 * rate[:, None, None] * t + torch.rand(n, regions, 1) * 6)
    return wave + 0.5 * torch.randn(n, regions, samples), rate


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=64)
    p.add_argument("--batch", type=int, default=64)
    args = p.parse_args()
    torch.manual_seed(2)
    x, y = traces(args.batch * 12, 24, 240)
    model = Heartbeat(24, 240, 1536)
    opt = torch.optim.SGD(model.parameters(), lr=5e-4, momentum=0.5)
    best = BestWeights()
    ms = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        s = slice(step % 12 * args.batch, (step % 12 + 1) * args.batch)
        loss = nn.functional.mse_loss(model(x[s]), y[s])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 29:
            best.look(model, loss.item())
        ms.append((time.perf_counter() - t0) * 1000)
    best.restore(model)
    print(f"{statistics.median(ms[3:]):.2f} ms/step median, {statistics.mean(ms[3:]):.2f} ms/step")


main()
