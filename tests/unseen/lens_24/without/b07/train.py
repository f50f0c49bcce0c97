import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from library import Contrast, Loans, Towers


def main(steps=60, size=72):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    loans = Loans()
    model = Towers(loans.readers, loans.books)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    contrast = Contrast(loans, seed=dist.get_rank())
    first = torch.zeros(size, dtype=torch.long)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        readers, books = contrast.batch(size)
        loss = F.cross_entropy(model(readers, books), first)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
