import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from scans import Scans


def main(steps=60, batch=40, width=36):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, width, 5, 2, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, 1),
    )
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    scans, volume = Scans().of(rank, world)
    g = torch.Generator().manual_seed(1 + rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(volume), (batch,), generator=g)
        loss = F.mse_loss(net(scans[picked])[:, 0], volume[picked])
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
