#: n=8 ranks=5 cause=unmatched_p2p tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

MICRO = 4
HIDDEN = 16


class Channel:
    """Numbered point-to-point traffic between neighbouring stages."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.sequence = 0

    def advance(self, by=1):
        self.sequence += by

    def from_previous(self, shape):
        x = torch.empty(shape)
        dist.recv(x, self.rank - 1, tag=self.sequence)  #: LINE
        return x

    def to_next(self, y):
        dist.send(y, self.rank + 1, tag=self.sequence)

    def from_next(self, shape):
        g = torch.empty(shape)
        dist.recv(g, self.rank + 1, tag=self.sequence)
        return g

    def to_previous(self, g):
        dist.send(g, self.rank - 1, tag=self.sequence)


class Stage(nn.Module):
    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(100 + rank)
        self.norm = nn.LayerNorm(HIDDEN)
        self.ff = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        return x + torch.tanh(self.ff(self.norm(x)))


class PipelineRunner:
    def __init__(self, rank, world, replay_step):
        self.rank, self.world = rank, world
        self.channel = Channel(rank, world)
        self.stage = Stage(rank)
        self.opt = torch.optim.SGD(self.stage.parameters(), lr=1e-2)
        self.replay_step = replay_step
        self.replayed = 0

    def forward_micro(self, shape=(3, HIDDEN)):
        x = torch.randn(shape) if self.rank == 0 else self.channel.from_previous(shape)
        x.requires_grad_(True)
        y = self.stage(x)
        time.sleep(0.006)
        if self.rank < self.world - 1:
            self.channel.to_next(y.detach())
        return x, y

    def backward_micro(self, x, y):
        g = self.channel.from_next(y.shape) if self.rank < self.world - 1 else torch.full_like(y, 1 / y.numel())
        y.backward(g)
        if self.rank > 0:
            self.channel.to_previous(x.grad)

    def recompute_check(self, step, x, y):
        with torch.no_grad():
            again = self.stage(x)
        if self.rank == 5 and step == self.replay_step:
            self.replayed += 1
            print("FREEZE", time.time(), flush=True)
            self.channel.advance()
        return torch.allclose(again, y)

    def train_step(self, step):
        kept = []
        for m in range(MICRO):
            x, y = self.forward_micro()
            kept.append((x, y))
            if m == 1:
                self.recompute_check(step, x, y)
            self.channel.advance()
        for x, y in kept:
            self.backward_micro(x, y)
            self.channel.advance()
        self.opt.step()
        self.opt.zero_grad()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    runner = PipelineRunner(rank, world, random.Random(51).randint(16, 26))
    for step in range(70):
        runner.train_step(step)
        if rank == world - 1 and step % 10 == 0:
            print("step", step, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
