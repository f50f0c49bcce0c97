import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from gang import average_gradients, same_start


class Fold(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Prices(nn.Module):
    """What a stall on the market asks for its goods, from what is known of it."""

    def __init__(self, facts=48, width=128, folds=9):
        super().__init__()
        self.first = nn.Linear(facts, width)
        self.folds = nn.Sequential(*(Fold(width) for _ in range(folds)))
        self.last = nn.Linear(width, 1)

    def forward(self, facts):
        return self.last(self.folds(self.first(facts))).squeeze(-1)


def stalls(rank, count=12000, facts=48):
    """The share of this rank."""
    draw = torch.Generator().manual_seed(9)
    rule = torch.randn(facts, 5, generator=draw)
    draw.manual_seed(100 + rank)
    known = torch.randn(count, facts, generator=draw)
    return known, (known @ rule / 4).sin().sum(1) + 0.1 * torch.randn(count, generator=draw)


def main(steps=60, batch=640):
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    known, prices = stalls(dist.get_rank())
    model = Prices()
    same_start(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(prices), (batch,))
        loss = F.smooth_l1_loss(model(known[picked]), prices[picked])
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
