import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from checks import same_weights


def main(steps=60, batch=56, width=40):
    os.environ.setdefault("TORCH_DISTRIBUTED_DEBUG", "OFF")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(36 * width, 3),
    )
    same_weights(net)
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    g = torch.Generator().manual_seed(rank)
    tiles = torch.randn(1500, 2, 24, 24, generator=g)
    slope = tiles.flatten(2)[:, 0, :3]
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1500, (batch,))
        loss = F.huber_loss(net(tiles[picked]), slope[picked])
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
