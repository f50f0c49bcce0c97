import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional as F

from stages import stage_for


def drives(count=2000, length=41, places=4000):
    made = torch.Generator().manual_seed(29)
    start = torch.randint(0, places, (count, 1), generator=made)
    return (start + torch.randint(-9, 10, (count, length), generator=made).cumsum(1)) % places


def cost(scores, wanted):
    return F.cross_entropy(scores.transpose(1, 2), wanted)


def main(steps=60, batch=8, pieces=4):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(40 + rank)
    rides, part = drives(), stage_for(rank)
    schedule = ScheduleGPipe(PipelineStage(part, rank, world, torch.device("cpu")), n_microbatches=pieces, loss_fn=cost)
    optimizer = torch.optim.Adam(part.parameters(), lr=5e-4, fused=True)
    times, losses = [], []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(rides) - batch)
        ride = rides[at : at + batch]
        losses.clear()
        if rank == 0:
            schedule.step(ride[:, :-1])
        else:
            schedule.step(target=ride[:, 1:], losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    last = torch.stack(losses).mean().detach() if losses else torch.zeros(())
    dist.broadcast(last, world - 1)
    if rank == 0:
        print(f"loss {last.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
