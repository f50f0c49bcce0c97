import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from radar import RainAhead
from shard import shard


def pictures(rank, count=600, patches=64, pixels=64):
    made = torch.Generator().manual_seed(10 + rank)
    now = torch.rand(count, patches, pixels, generator=made)
    return now, now.roll(1, 1) * 0.9


def main(steps=60, batch=8):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = shard(RainAhead())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    now, later = pictures(rank)
    made = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(now), (batch,), generator=made)
        loss = F.l1_loss(model(now[picked]), later[picked])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
