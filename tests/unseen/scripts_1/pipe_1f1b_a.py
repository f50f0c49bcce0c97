"""Three-stage pipeline with torch.distributed.pipelining, 1F1B, validated every few steps."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

D, CLASSES, MB, BATCH = 16, 4, 4, 16


def build_stage(rank, world):
    torch.manual_seed(rank)
    if rank == world - 1:
        return nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, CLASSES))
    return nn.Sequential(nn.Linear(D, D), nn.ReLU())


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, D, generator=g)
    return x, x[:, :CLASSES].argmax(1)


def loss_fn(out, target):
    return nn.functional.cross_entropy(out, target)


class PipeTrainer:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.module = build_stage(self.rank, self.world)
        self.stage = PipelineStage(self.module, self.rank, self.world, torch.device("cpu"))
        self.schedule = Schedule1F1B(self.stage, n_microbatches=MB, loss_fn=loss_fn)
        self.opt = torch.optim.SGD(self.module.parameters(), lr=0.1)

    @property
    def first(self):
        return self.rank == 0

    @property
    def last(self):
        return self.rank == self.world - 1

    def train_step(self, x, y):
        self.opt.zero_grad()
        losses = []
        if self.first:
            self.schedule.step(x)
        elif self.last:
            self.schedule.step(target=y, losses=losses)
        else:
            self.schedule.step()
        self.opt.step()
        return torch.stack(losses).mean().item() if losses else None

    def validate(self, x, y):
        losses = []
        if self.first:
            self.schedule.eval(x)
        elif self.last:
            self.schedule.eval(target=y, losses=losses)
        return torch.stack(losses).mean().item() if losses else None


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    job = PipeTrainer()
    for step in range(8):
        loss = job.train_step(*batch(step))
        if job.last:
            print(f"step {step} loss {loss:.4f}")
        if step % 4 == 3:
            val = job.validate(*batch(10_000))
            if job.last:
                print(f"   validation {val:.4f} (pid {os.getpid()})")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
