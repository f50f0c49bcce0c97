import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from proteins import Folds


@torch.no_grad()
def limit(shards, most):
    """Clips the gradient by its length over all ranks: only one number travels."""
    square = torch.stack([g.square().sum() for g in shards]).sum()
    dist.all_reduce(square)
    factor = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(shards, factor)


def main(steps=60, batch=12, length=48):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model, mesh = Folds(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    g = torch.Generator().manual_seed(rank)
    chains = torch.randint(0, 24, (800, length), generator=g)
    fold = (chains + chains.roll(1, 1)) % 3
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 800, (batch,))
        loss = F.cross_entropy(model(chains[picked]).flatten(0, 1), fold[picked].flatten())
        optimizer.zero_grad()
        loss.backward()
        limit([p.grad.to_local() for p in model.parameters()], 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
