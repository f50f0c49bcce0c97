import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from average import Average
from coast import Coast


def main(steps=60, batch=448):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Coast()
    for stage in model.stages:
        fully_shard(stage, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    average = Average(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    torch.manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        before = torch.randn(batch, 120).cumsum(1) / 10
        after = before.roll(2, 1) - 0.1 * before.sin()
        loss = F.mse_loss(model(before), after)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
