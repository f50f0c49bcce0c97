import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

MICRO = 4
BATCH = 16
WIDTH = 12


def build_block(index, count):
    torch.manual_seed(100 + index)
    if index == count - 1:
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())


def batches(seed, n):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(BATCH, WIDTH, generator=g)
        yield x, x[:, :3].sum(1, keepdim=True)


class Runner:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.device = torch.device("cpu")
        self.module = build_block(rank, world)
        self.stage = PipelineStage(self.module, rank, world, self.device)
        self.schedule = ScheduleGPipe(self.stage, n_microbatches=MICRO, loss_fn=nn.functional.mse_loss)
        self.optim = torch.optim.SGD(self.module.parameters(), lr=0.02)

    def _call(self, fn, x, y):
        losses = []
        if self.stage.is_first:
            fn(x)
        elif self.stage.is_last:
            fn(target=y, losses=losses)
        else:
            fn()
        return sum(l.item() for l in losses) / len(losses) if losses else None

    def train_step(self, x, y):
        self.optim.zero_grad()
        loss = self._call(self.schedule.step, x, y)
        self.optim.step()
        return loss

    def report(self, step, data):
        values = [self._call(self.schedule.eval, x, y) for x, y in data]
        if self.stage.is_last:
            print(f"step {step}: held-out loss {sum(values) / len(values):.4f}", flush=True)


def main(steps=8, every=3):
    dist.init_process_group(backend="gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    runner = Runner(rank, world)
    held_out = list(batches(77, 2))
    for step, (x, y) in enumerate(batches(5, steps), start=1):
        runner.train_step(x, y)
        if step % every == 0:
            runner.report(step, held_out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
