#: n=4 ranks=2 cause=slow_rank tier=notice set=2
"""Four-stage pipeline with torch.distributed.pipelining (GPipe schedule)."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

DIM = 16
MICROBATCHES = 4
BATCH = 8
STEPS = 140
SATURATION_STEP = 20


class ActivationMonitor:
    """Sends activation statistics to the metrics gateway. Once the local spool
    is full each push waits for an acknowledgement of the gateway."""

    def __init__(self, stage, spool_pushes):
        self.stage = stage
        self.spool_left = spool_pushes
        self.full = False

    def push(self, h):
        _ = float(h.detach().abs().max())
        if self.spool_left > 0:
            self.spool_left -= 1
            return
        if not self.full:
            self.full = True
            print("FREEZE", time.time(), flush=True)
        time.sleep(0.35)  # round trip to the gateway  #: LINE


class StageNet(nn.Module):
    def __init__(self, stage, num_stages, monitor=None):
        super().__init__()
        torch.manual_seed(stage)
        self.layers = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
        self.is_last = stage == num_stages - 1
        self.monitor = monitor

    def forward(self, x):
        time.sleep(0.02)
        h = x + self.layers(x)
        if self.monitor is not None:
            self.monitor.push(h)
        return h


def make_monitor(rank):
    # only the third stage had exploding activations, so only that one is watched
    if rank != 2:
        return None
    return ActivationMonitor(rank, spool_pushes=SATURATION_STEP * MICROBATCHES)


def batch(gen):
    x = torch.randn(BATCH, DIM, generator=gen)
    return x, x.cumsum(dim=1).tanh()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    net = StageNet(rank, world, make_monitor(rank))
    stage = PipelineStage(net, rank, world, device)
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(0)

    for step in range(STEPS):
        x, y = batch(gen)
        opt.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(x)
        elif rank == world - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        opt.step()
        mean_loss = torch.stack(losses).detach().mean().view(1) if losses else torch.zeros(1)
        dist.broadcast(mean_loss, src=world - 1)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {mean_loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
