import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from vit import ViT


def build(world):
    mesh = init_device_mesh("cpu", (world,))
    model = ViT()
    # two layers to a unit; the whole of the parameters fits, so they stay until the backward
    for k in range(0, len(model.layers), 2):
        fully_shard([model.layers[k], model.layers[k + 1]], mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


def main(steps=60, size=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    centre = torch.randn(10, 3, 32, 32)
    model = build(dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(50 + rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        labels = torch.randint(0, 10, (size,), generator=g)
        x = centre[labels] + torch.randn(size, 3, 32, 32, generator=g)
        loss = F.cross_entropy(model(x), labels)
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
