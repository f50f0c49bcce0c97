import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from forecast import PatchForecaster, shard


def counts(batch, length, generator):
    t = torch.arange(length) / 24
    phase = 6.283 * torch.rand(batch, 1, generator=generator)
    scale = 1 + torch.rand(batch, 1, generator=generator)
    return scale * torch.sin(6.283 * t + phase) + 0.1 * torch.randn(batch, length, generator=generator)


def main(steps=60, batch=12, patch=16, patches=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(PatchForecaster(patch, patches=patches), dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x = counts(batch, patch * (patches + 1), g)
        loss = F.smooth_l1_loss(model(x[:, :-patch]), x[:, -patch:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
