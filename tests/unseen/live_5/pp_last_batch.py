"""Pipeline by hand (GPipe), three stages: inputs are read on the first stage, labels on the last."""
import os

import torch
import torch.distributed as dist
from torch import nn

DIM, MICRO, BATCH = 96, 8, 32
SAMPLES = 32 * 40 + 24  # of one epoch


def make_stage(rank, last):
    torch.manual_seed(rank)
    layers = []
    for _ in range(3):
        layers += [nn.Linear(DIM, DIM), nn.LayerNorm(DIM), nn.GELU()]
    if rank == last:
        layers.append(nn.Linear(DIM, 6))
    return nn.Sequential(*layers)


class Epoch:
    """The same seed on every stage, so that inputs and labels belong together."""

    def __init__(self, number):
        g = torch.Generator().manual_seed(number)
        self.x = torch.randn(SAMPLES, DIM, generator=g)
        self.y = self.x[:, :6].argmax(1)

    def inputs(self):
        return self.x.split(BATCH)

    def labels(self):
        return self.y.split(BATCH)


def first(stage, x):
    outs = []
    for part in x.split(MICRO):
        h = stage(part)
        dist.send(h.detach(), 1)
        outs.append(h)
    for h in outs:
        grad = torch.empty_like(h)
        dist.recv(grad, 1)
        h.backward(grad)


def middle(stage, rank):
    kept = []
    for _ in range(BATCH // MICRO):  #: LINE
        h = torch.empty(MICRO, DIM)
        dist.recv(h, rank - 1)  #: LINE
        h.requires_grad_()
        out = stage(h)
        dist.send(out.detach(), rank + 1)
        kept.append((h, out))
    for h, out in kept:
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
        out.backward(grad)
        dist.send(h.grad, rank - 1)


def final(stage, y, rank):
    kept, total = [], 0.0
    parts = y.split(MICRO)
    for target in parts:
        h = torch.empty(len(target), DIM)
        dist.recv(h, rank - 1)
        h.requires_grad_()
        loss = nn.functional.cross_entropy(stage(h), target) / len(parts)
        kept.append((h, loss))
        total += loss.item()
    for h, loss in kept:
        loss.backward()
        dist.send(h.grad, rank - 1)
    return total


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = make_stage(rank, world - 1)
    opt = torch.optim.AdamW(stage.parameters(), lr=1e-3)
    for number in range(4):
        data = Epoch(number)
        for step, (x, y) in enumerate(zip(data.inputs(), data.labels())):
            opt.zero_grad()
            if rank == 0:
                first(stage, x)
            elif rank == world - 1:
                loss = final(stage, y, rank)
                if step % 10 == 0:
                    print(f"epoch {number} step {step} loss {loss:.3f}", flush=True)
            else:
                middle(stage, rank)
            torch.nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
            opt.step()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
