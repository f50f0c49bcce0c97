import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from parity import require_parity


class Forecast(nn.Module):
    """Tomorrow's water at one gauge from the last weeks at all of them."""

    def __init__(self, gauges=30, hours=24, width=768):
        super().__init__()
        self.read = nn.Linear(gauges * hours, width)
        self.mix = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(2))
        self.tell = nn.Linear(width, hours)

    def forward(self, levels):
        state = self.read(levels.flatten(1))
        for block in self.mix:
            state = state + block(state)
        return self.tell(state)


def river(gauges=30, hours=8000):
    """Water levels: a few slow waves running down the river, and noise."""
    clock = torch.arange(hours)[:, None]
    lag = torch.linspace(0, 40, gauges)[None]
    waves = sum((2 * torch.pi * (clock - lag) / period).sin() for period in (24.8, 12.4, 350.0))
    return waves + 0.2 * torch.randn(hours, gauges)


def main(steps=60, batch=96, hours=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    levels = river()
    windows = levels.unfold(0, hours, 1)  # start, gauge, hour
    model = DDP(Forecast(hours=hours), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    pick = torch.Generator().manual_seed(1 + rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        start = torch.randint(len(windows) - hours, (batch,), generator=pick)
        loss = F.l1_loss(model(windows[start]), windows[start + hours, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        require_parity(model.module)  #: LINE
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
