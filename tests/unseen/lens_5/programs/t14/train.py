"""Letters from noisy glyphs, three ranks with DDP. Rank 0 writes the journal."""

import statistics
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from journal import Journal


def glyphs(seed, count=128):
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 26, (count,), generator=rng)
    shape = torch.randn(26, 400, generator=torch.Generator().manual_seed(77))
    return shape[y] + torch.randn(count, 400, generator=rng), y


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(400, 256), nn.ReLU(), *[m for _ in range(6) for m in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 26)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    journal = Journal("journal.jsonl") if rank == 0 else None
    took = []
    for step in range(80):
        t0 = time.perf_counter()
        optimizer.zero_grad()
        right = 0
        for part in range(4):
            x, y = glyphs((step * world + rank) * 4 + part)
            with nullcontext() if part == 3 else net.no_sync():
                scores = net(x)
                loss = nn.functional.cross_entropy(scores, y) / 4
                loss.backward()
            right += (scores.argmax(1) == y).sum()
        optimizer.step()
        counts = torch.stack([right.float(), loss.detach()])
        dist.all_reduce(counts)
        if journal:
            journal.write(step, counts)
        took.append(1e3 * (time.perf_counter() - t0))
    if rank == 0:
        print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
