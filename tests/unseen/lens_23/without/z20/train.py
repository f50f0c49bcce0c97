import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from marks import Confusion

KINDS = 7


def meadow(count=400, size=16):
    """Squares of a meadow from above in five colours, and what grows at each point."""
    kind = F.interpolate(torch.rand(count, KINDS, 4, 4), size=(size, size), mode="bilinear").argmax(1)
    colours = torch.randn(KINDS, 5)[kind].permute(0, 3, 1, 2) + torch.randn(count, 5, size, size)
    return colours, kind


def network(width=96):
    return nn.Sequential(
        nn.Conv2d(5, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, KINDS, 1),
    )


def main(steps=60, batch=4):
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    colours, kind = meadow()
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    confusion, times = Confusion(KINDS), []
    order = torch.randperm(len(colours))[rank::ranks].split(batch)
    for step in range(steps):
        began = time.perf_counter()
        picked = order[step % len(order)]
        scores = model(colours[picked])
        loss = F.cross_entropy(scores, kind[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        confusion.add(scores.argmax(1), kind[picked])
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}, overlap {confusion.overlap():.4f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
