import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional as F

from parts import layers


def leaves(count=1600, side=40, kinds=20):
    made = torch.Generator().manual_seed(23)
    kind = torch.randint(0, kinds, (count,), generator=made)
    colour = torch.randn(kinds, 3, 1, 1, generator=made)
    return colour[kind] + torch.randn(count, 3, side, side, generator=made), kind


def main(steps=60, batch=8, pieces=8):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    pictures, kinds = leaves()
    part = layers(rank)
    stage = PipelineStage(part, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=pieces, loss_fn=F.cross_entropy)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3, fused=True)
    order = torch.randperm(len(kinds), generator=torch.Generator().manual_seed(77))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = order[step * batch % len(order) :][:batch]
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(pictures[picked])
        else:
            losses = []
            schedule.step(target=kinds[picked], losses=losses)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    last = torch.stack(losses).mean().detach() if rank == world - 1 else torch.zeros(())
    dist.broadcast(last, world - 1)
    if rank == 0:
        print(f"loss {last.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
