import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from encoder import Patches


def shard(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)  #: LINE
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


def main(steps=60, batch=24):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = shard(Patches(), init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.manual_seed(50 + rank)
    pictures, labels = torch.rand(500, 3, 32, 32), torch.randint(20, (500,))
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        pick = torch.randint(500, (batch,))
        loss = torch.nn.functional.cross_entropy(model(pictures[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - begin))
        if rank == 0 and step % 30 == 29:
            print(f"step {step + 1} loss {loss.item():.3f}", flush=True)
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
