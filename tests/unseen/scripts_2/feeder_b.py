"""Rank 0 prepares batches on its CPU and feeds them to rank 1, which trains with double buffering."""
import os
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class Feeder:
    def __init__(self, dst, steps, shape):
        self.dst, self.steps, self.shape = dst, steps, shape

    def run(self):
        g = torch.Generator().manual_seed(12)
        inflight = deque()
        for _ in range(self.steps):
            batch = torch.randn(self.shape, generator=g)
            batch[:, -1] = batch[:, :-1].mean(1)
            inflight.append((dist.isend(batch, self.dst), batch))
            while len(inflight) > 2:
                inflight.popleft()[0].wait()
        while inflight:
            inflight.popleft()[0].wait()


class Prefetcher:
    def __init__(self, src, steps, shape):
        self.src, self.steps = src, steps
        self.slots = [torch.empty(shape), torch.empty(shape)]
        self.pending = None

    def _post(self, step):
        self.pending = dist.irecv(self.slots[step % 2], self.src)

    def __enter__(self):
        self._post(0)
        return self

    def __exit__(self, *exc):
        if self.pending is not None:
            self.pending.wait()
            self.pending = None

    def __iter__(self):
        for step in range(self.steps):
            self.pending.wait()
            self.pending = None
            if step + 1 < self.steps:
                self._post(step + 1)
            yield self.slots[step % 2]


def train(src, steps, shape):
    torch.manual_seed(0)
    model = nn.Linear(shape[1] - 1, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    with Prefetcher(src, steps, shape) as batches:
        for batch in batches:
            loss = (model(batch[:, :-1]) - batch[:, -1:]).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


def main():
    steps = int(os.environ.get("STEPS", 9))
    shape = (32, 7)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        Feeder(1, steps, shape).run()
    else:
        print("final loss", round(train(0, steps, shape), 5), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
