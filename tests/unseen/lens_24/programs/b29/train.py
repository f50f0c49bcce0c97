import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional as F


class Stack(nn.Module):
    """Convolutions over the trace of a seismograph."""

    def __init__(self, enter, width, depth, leave=None):
        super().__init__()
        self.enter = nn.Conv1d(enter, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(depth))
        self.leave = nn.Conv1d(width, leave, 1) if leave else None

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = x + F.relu(layer(x))
        return x if self.leave is None else self.leave(x)


def traces(count=1500, length=96):
    clean = torch.randn(count, 3, length).cumsum(-1) / 5
    return clean + 0.5 * torch.randn_like(clean), clean


def main(steps=60, batch=32, parts=4):
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    shaken, clean = traces()
    module = Stack(3, 64, 4) if rank == 0 else Stack(64, 64, 4, leave=3)
    stage = PipelineStage(module, rank, dist.get_world_size(), torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=parts, loss_fn=F.mse_loss)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(len(shaken), (batch,), generator=torch.Generator().manual_seed(step))
        if rank == 0:
            schedule.step(shaken[picked])
        else:
            losses = []
            schedule.step(target=clean[picked], losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 1:
        print(f"loss {torch.stack(losses).mean().item():.5f}")
    dist.barrier()
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
