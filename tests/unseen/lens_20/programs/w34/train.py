import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from wells import Stage, Wells, shard


def main(steps=60, batch=192):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(Wells(), Stage, dist.get_world_size())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    torch.manual_seed(1 + rank)
    logs = torch.randn(2500, 200).cumsum(1) / 14
    depth = logs.amax(1) - logs.amin(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 2500, (batch,))
        loss = F.smooth_l1_loss(model(logs[picked]), depth[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
