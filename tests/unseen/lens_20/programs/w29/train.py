import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from share import Share


class Step(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.net(x)


def bridge_net(places=64, width=160, depth=5):
    """How far a bridge bends, by the weights on it."""
    return nn.Sequential(nn.Linear(places, width), *[Step(width) for _ in range(depth)], nn.Linear(width, places))


def main(steps=60, batch=640):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = bridge_net()
    share = Share(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    weights = torch.rand(4000, 64)
    bends = weights.cumsum(1).flip(1).cumsum(1) / 900
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 4000, (batch,))
        share.clear()
        loss = F.mse_loss(model(weights[picked]), bends[picked])
        loss.backward()
        share.average()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
