import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from encoder import Encoder
from moco import MoCo


def views(images):
    shift = torch.randint(-4, 5, (2,)).tolist()
    first = images.roll(shift, (2, 3)) + 0.05 * torch.randn_like(images)
    second = images.flip(3) * (0.8 + 0.4 * torch.rand(len(images), 1, 1, 1))
    return first, second


def main(steps=60, batch=16):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    moco = MoCo(Encoder())
    model = DDP(moco, broadcast_buffers=False)
    torch.manual_seed(1 + rank)
    images = torch.rand(1200, 3, 32, 32)
    optimizer = torch.optim.SGD(moco.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        first, second = views(images[torch.randint(len(images), (batch,))])
        loss, keys = model(first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        moco.enqueue(keys)
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.3f}, {os.environ['WORLD_SIZE']} ranks")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
