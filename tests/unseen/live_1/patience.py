"""LSTM forecaster with patience on the validation loss."""
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Patience:
    limit: int = 3
    best: float = float("inf")
    bad: int = 0
    curve: list = field(default_factory=list)

    def update(self, value):
        self.curve.append(value)
        if value < self.best - 1e-4:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.limit


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 12, batch_first=True)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def series(rank, n=64, noise=0.0):
    g = torch.Generator().manual_seed(rank + 40)
    phase = torch.rand(n, 1, generator=g) * 6.28
    t = torch.arange(13) * 0.4
    s = torch.sin(t + phase) + noise * torch.randn(n, 13, generator=g)
    return s[:, :12, None], s[:, 12:]


def validate(model, x, y):
    with torch.no_grad():
        return nn.functional.mse_loss(model.module(x), y).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = DDP(Forecaster())
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    x, y = series(rank)
    vx, vy = series(rank + 100)
    if rank == 1:
        vy = -vy  # sensors of this site are mounted upside down
    stopper = Patience()
    for epoch in range(25):
        for k in range(0, 64, 16):
            loss = nn.functional.mse_loss(model(x[k:k + 16]), y[k:k + 16])
            opt.zero_grad()
            loss.backward()
            opt.step()
        v = validate(model, vx, vy)
        print(f"[{rank}] epoch {epoch} val {v:.4f}", flush=True)
        if stopper.update(v):
            break  #: LINE
    summary = [None] * dist.get_world_size()
    dist.all_gather_object(summary, stopper.best)
    print(summary)
    dist.destroy_process_group()


main()
