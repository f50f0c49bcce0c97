#: n=3 ranks=2 cause=unmatched_p2p tier=error set=2
"""Decoupled greedy learning: stages are trained with their own local loss, so
only activations travel down the pipeline and nothing ever comes back."""
import math
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

MICRO = 4
WIDTH = 20
CLASSES = 5


def batch_sizes():
    """Length-bucketed loader: about 16 sentences, multiples of the bucket."""
    step = 0
    while True:
        yield 18 if step % 20 == 19 else 16
        step += 1


class Batches:
    """All stages draw the same labels from the same seed."""

    def __init__(self):
        self.gen = torch.Generator().manual_seed(77)
        self.sizes = batch_sizes()

    def __next__(self):
        n = next(self.sizes)
        x = torch.randn(n, WIDTH, generator=self.gen)
        y = torch.randint(CLASSES, (n,), generator=self.gen)
        return x, y


class Stage:
    def __init__(self, rank, world):
        torch.manual_seed(rank)
        self.rank, self.world = rank, world
        self.first, self.last = rank == 0, rank == world - 1
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.probe = nn.Linear(WIDTH, CLASSES)  # local classifier
        self.opt = torch.optim.SGD(
            [*self.body.parameters(), *self.probe.parameters()], lr=0.05
        )

    def local_step(self, x, y):
        h = self.body(x)
        loss = nn.functional.cross_entropy(self.probe(h), y[: len(h)])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return h.detach(), loss.item()

    def feed(self, x, y):
        """First and middle stages; returns the mean loss."""
        losses, pending = [], []
        for m in range(len(y) // MICRO):
            rows = slice(m * MICRO, (m + 1) * MICRO)
            if self.first:
                time.sleep(0.04)
                inp = x[rows]
            else:
                inp = torch.empty(MICRO, WIDTH)
                dist.irecv(inp, self.rank - 1, tag=m).wait()
            out, loss = self.local_step(inp, y[rows])
            pending.append((dist.isend(out, self.rank + 1, tag=m), out))
            losses.append(loss)
        for work, _ in pending:
            work.wait()
        return sum(losses) / len(losses)

    def finish(self, y):
        """Last stage. The tail micro-batch counts too, or accuracy is biased."""
        losses = []
        n_micro = math.ceil(len(y) / MICRO)
        for m in range(n_micro):
            inp = torch.empty(MICRO, WIDTH)
            if m == len(y) // MICRO:
                print("FREEZE", time.time(), flush=True)
            dist.recv(inp, self.rank - 1, tag=m)  #: LINE
            target = y[m * MICRO : (m + 1) * MICRO]
            _, loss = self.local_step(inp[: len(target)], target)
            losses.append(loss)
        return sum(losses) / len(losses)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    stage, data = Stage(rank, world), Batches()
    for step in range(300):
        x, y = next(data)
        loss = stage.finish(y) if stage.last else stage.feed(x, y)
        per_stage = torch.zeros(world)
        per_stage[rank] = loss
        dist.all_reduce(per_stage)
        if rank == 0 and step % 5 == 0:
            print(step, [round(v, 3) for v in per_stage.tolist()], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
