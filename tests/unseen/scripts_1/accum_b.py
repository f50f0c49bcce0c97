import contextlib
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUM = 3
MICRO_STEPS = 24


def micro_batches(rank):
    """Yields micro batches; some of them carry no label at all."""
    g = torch.Generator().manual_seed(77 + rank)
    for i in range(MICRO_STEPS):
        x = torch.randn(4, 5, generator=g)
        y = (x.sum(1) > 0).float()
        if rank == 1 and i == 16:
            y = torch.full_like(y, -1.0)
        yield x, y


class Accumulator:
    def __init__(self, model, every):
        self.model, self.every, self.seen = model, every, 0

    @property
    def boundary(self):
        return (self.seen + 1) % self.every == 0

    def context(self):
        return contextlib.nullcontext() if self.boundary else self.model.no_sync()


def masked_loss(logits, y):
    mask = (y >= 0).float()
    return (F.binary_cross_entropy_with_logits(logits, y.clamp(min=0), reduction="none") * mask).mean()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = int(os.environ["RANK"])
    torch.manual_seed(1)
    model = DDP(torch.nn.Linear(5, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    acc = Accumulator(model, ACCUM)
    updates = 0
    for x, y in micro_batches(rank):
        with acc.context():
            loss = masked_loss(model(x).squeeze(1), y)
            (loss / ACCUM).backward()
        if acc.boundary:
            opt.step()
            opt.zero_grad()
            updates += 1
            if rank == 0:
                print(f"update {updates} loss {loss.item():.4f}")
        acc.seen += 1
    n = torch.tensor([updates])
    dist.all_reduce(n)
    if rank == 0:
        print("updates on all ranks:", n.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
