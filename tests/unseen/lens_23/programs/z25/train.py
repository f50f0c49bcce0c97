import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional as F

from stages import stage_of


def customers(count=4000, facts=200, goods=2600):
    bought = torch.randn(count, facts)
    return bought, (bought @ torch.randn(facts, goods)).argmax(1)


def main(steps=60, batch=256):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    bought, following = customers()
    model = stage_of(rank)
    schedule = Schedule1F1B(
        PipelineStage(model, rank, dist.get_world_size(), torch.device("cpu")), n_microbatches=4, loss_fn=F.cross_entropy,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    torch.manual_seed(1)
    times, losses, began = [], [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(following), (batch,))
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(bought[picked])
        else:
            losses.clear()
            schedule.step(target=following[picked], losses=losses)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    last = torch.stack(losses).mean().detach() if rank else torch.zeros(())
    dist.broadcast(last, src=1)
    if rank == 0:
        print(f"loss {last.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
