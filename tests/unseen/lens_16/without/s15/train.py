import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from corpus import batches, documents, part
from model import Reader


def main(steps=60, size=12):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Reader())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    feed = batches(part(documents(), rank, world), size, seed=0)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = model(next(feed))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
