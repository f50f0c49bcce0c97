import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from contrast import clip_loss
from towers import Clip


def pairs(rank, batch=24, topics=60):
    g = torch.Generator().manual_seed(0)
    look = torch.randn(topics, 3, 32, 32, generator=g)
    words = torch.randint(800, (topics, 20), generator=g)
    g.manual_seed(1 + rank)
    while True:
        topic = torch.randperm(topics, generator=g)[:batch]
        yield look[topic] + 0.5 * torch.randn(batch, 3, 32, 32, generator=g), words[topic]


def main(steps=60):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Clip())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    source, times = pairs(rank), []
    for step in range(steps):
        start = time.perf_counter()
        loss = clip_loss(*model(*next(source)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.3f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
