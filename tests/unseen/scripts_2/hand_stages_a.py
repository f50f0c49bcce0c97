"""GPipe by hand: all forward micro-batches, then all backward ones, with plain send and recv."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn

WIDTH, MICRO = 10, 4


class Stage:
    def __init__(self, rank, world):
        self.rank, self.last = rank, world - 1
        torch.manual_seed(rank)
        self.block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.opt = torch.optim.SGD(self.block.parameters(), lr=0.05)

    def _recv_from(self, peer, rows):
        buf = torch.empty(rows, WIDTH)
        dist.recv(buf, src=peer)
        return buf

    def forward(self, rows, x=None):
        if self.rank > 0:
            x = self._recv_from(self.rank - 1, rows).requires_grad_()
        y = self.block(x)
        if self.rank < self.last:
            dist.send(y.detach(), dst=self.rank + 1)
        return x, y

    def backward(self, x, y, target=None, scale=1.0):
        if self.rank == self.last:
            loss = (y - target).square().mean() * scale
            loss.backward()
        else:
            y.backward(self._recv_from(self.rank + 1, len(y)))
            loss = None
        if self.rank > 0:
            dist.send(x.grad, dst=self.rank - 1)
        return 0.0 if loss is None else loss.item()


def micro_rows(total):
    return [len(part) for part in torch.arange(total).tensor_split(MICRO)]


def train_step(stage, batch, total):
    stage.opt.zero_grad()
    rows = micro_rows(total)
    if stage.rank == 0:
        parts = batch.tensor_split(MICRO)
    else:
        parts = [None] * MICRO
    targets = batch.roll(1, 1).tensor_split(MICRO)
    saved = [stage.forward(n, part) for n, part in zip(rows, parts)]
    loss = 0.0
    for (x, y), target in zip(saved, targets):
        loss += stage.backward(x, y, target, scale=1.0 / len(rows))
    stage.opt.step()
    return loss


def main():
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    stage = Stage(rank, world)
    g = torch.Generator().manual_seed(42)
    data = torch.rand(54, WIDTH, generator=g)
    for epoch in range(2):
        for step, batch in enumerate(data.split(16)):
            loss = train_step(stage, batch, len(batch))
        if rank == world - 1:
            print(f"epoch {epoch}: last batch of {len(batch)}, loss {loss:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
