import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from shard import shard
from weather import Weather


def stations(seed, count=600, hours=54, channels=12):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, hours, channels, generator=g).cumsum(1) / 6
    return x[:, :48], x[:, 48:, 0]


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(Weather(), init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    past, wind = stations(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(wind), (batch,))
        loss = F.mse_loss(model(past[picked]), wind[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
