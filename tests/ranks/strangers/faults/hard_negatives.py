#: n=4 ranks=2 cause=slow_periodic tier=notice set=2
# Metric learning with hard-negative mining. Gradients are accumulated over two
# micro-steps (DDP no_sync), mining runs every few optimizer steps.
import time
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATE = 2
MINE_EVERY = 5
MINE_BUDGET_S = 2.5


class Gallery:
    """Embeddings of the items seen so far."""

    def __init__(self, rank):
        self.rank = rank
        self.vectors = []
        self.hard = {}
        self.mined = False

    def add(self, z):
        self.vectors.extend(z.detach().tolist())
        del self.vectors[:-400]

    def needs_exact(self):
        # near-duplicates make the approximate index useless; that is only the
        # case in the shop catalogue, which is the shard of rank 2
        return self.rank == 2

    def remine(self):
        """Exact pairwise search within a time budget."""
        if not self.mined:
            self.mined = True
            print("FREEZE", time.time(), flush=True)
        deadline = time.monotonic() + MINE_BUDGET_S
        row = 0
        while time.monotonic() < deadline:  #: LINE
            a = self.vectors[row % len(self.vectors)]
            scores = [sum(p * q for p, q in zip(a, b)) for b in self.vectors]  #: LINE
            self.hard[row % len(self.vectors)] = max(range(len(scores)), key=scores.__getitem__)
            row += 1

    def maybe_remine(self, step):
        if step < 20 or step % MINE_EVERY:
            return
        if self.needs_exact():
            self.remine()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=1)


def triplet(ddp, x, gallery):
    anchor, positive = x.chunk(2)
    z = ddp(torch.cat([anchor, positive]))
    za, zp = z.chunk(2)
    gallery.add(za)
    return nn.functional.triplet_margin_loss(za, zp, zp.roll(1, dims=0), margin=0.3)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(29)
    ddp = DDP(Encoder())
    opt = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(rank)
    gallery = Gallery(rank)

    for step in range(260):
        opt.zero_grad()
        for micro in range(ACCUMULATE):
            time.sleep(0.09)
            last = micro == ACCUMULATE - 1
            with nullcontext() if last else ddp.no_sync():
                x = torch.randn(12, 20, generator=gen)
                loss = triplet(ddp, x, gallery) / ACCUMULATE
                loss.backward()
        opt.step()
        gallery.maybe_remine(step)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
