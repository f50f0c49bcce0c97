import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional as F

from sagas import Saga, part, tell


def loss_of(scores, words):
    return F.cross_entropy(scores.flatten(0, 1), words.flatten())


def main(steps=60, batch=8, pieces=4):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    runes, words = tell()
    model = part(Saga(), rank)
    stage = PipelineStage(model, rank, dist.get_world_size(), torch.device("cpu"))
    schedule = ScheduleGPipe(stage, pieces, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    draw = torch.Generator().manual_seed(1)
    times, losses = [], []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(runes), (batch,), generator=draw)
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(runes[picked])
        else:
            losses.clear()
            schedule.step(target=words[picked], losses=losses)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    last = torch.stack(losses).mean().detach() if rank else torch.zeros(())
    dist.broadcast(last, src=1)
    if rank == 0:
        print(f"loss {last.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
