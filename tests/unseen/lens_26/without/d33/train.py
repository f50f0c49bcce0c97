import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from model import Letters
from watch import gradient_norm


def write(count=3000, strip=96, strips=48, writers=30):
    made = torch.Generator().manual_seed(21)
    writer = torch.randint(0, writers, (count,), generator=made)
    hand = torch.randn(writers, 1, strip, generator=made)
    return hand[writer] + 2 * torch.randn(count, strips, strip, generator=made), writer


def main(steps=60, batch=5):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    lines, writers = (whole[rank::world].contiguous() for whole in write())
    model = Letters()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    times, norms = [], []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(writers) - batch)
        loss = F.cross_entropy(model(lines[at : at + batch]), writers[at : at + batch])
        loss.backward()
        norms.append(gradient_norm(model))
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}, gradient {torch.stack(norms).mean().item():.4f} on average")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
