import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from vit import TinyViT


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = TinyViT()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    g = torch.Generator().manual_seed(rank)
    x, y = torch.randn(160, 3, 32, 32, generator=g), torch.randint(10, (160,), generator=g)
    norms, took = [], []
    for step in range(60):
        begin = time.perf_counter()
        i = torch.randint(160, (10,), generator=g)
        loss = torch.nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 0:
            total = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).full_tensor()
            norms.append(total.item())
        took.append((time.perf_counter() - begin) * 1000)
    if rank == 0:
        took = took[3:]
        print(f"{len(norms)} norms, last {norms[-1]:.2f}")
        print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step")
    dist.destroy_process_group()


main()
