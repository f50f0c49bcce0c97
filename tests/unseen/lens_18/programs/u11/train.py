import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from translate import Glosses
from watch import Watch


def sharded(model, mesh):
    """Weights fit in memory twice over: they stay gathered between forward and backward."""
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


def main(steps=60, batch=12, length=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = sharded(Glosses(), init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    text = torch.randint(0, 1200, (2000, length), generator=torch.Generator().manual_seed(rank))
    watch, times = Watch(), []
    for step in range(steps):
        began = time.perf_counter()
        rows = text[torch.randint(0, 2000, (batch,))]
        loss = F.cross_entropy(model(rows).flatten(0, 1), (rows * 11 % 1200).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watch.weights(model)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f} weights {watch.history[-1]:.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
