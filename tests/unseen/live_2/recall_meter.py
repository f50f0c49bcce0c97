"""Two-tower retrieval, trained by hand-averaged gradients; reports recall@1 while it trains."""
import os

import torch
import torch.distributed as c10d
import torch.nn.functional as F
from torch import nn


class SyncedMean:
    """A running mean that knows how to look across the job."""

    def __init__(self, name):
        self.name, self.total, self.count = name, 0.0, 0

    def add(self, value, n=1):
        self.total += float(value) * n
        self.count += n

    @property
    def global_avg(self):
        t = torch.tensor([self.total, self.count], dtype=torch.float64)
        c10d.all_reduce(t)
        return (t[0] / t[1].clamp(min=1)).item()

    def __str__(self):
        return f"{self.name}={self.global_avg:.4f}"


class TwoTower(nn.Module):
    def __init__(self, vocab=4000, dim=96):
        super().__init__()
        self.q = nn.EmbeddingBag(vocab, dim)
        self.d = nn.EmbeddingBag(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, q, d):
        return F.normalize(self.proj(self.q(q)), dim=-1), F.normalize(self.proj(self.d(d)), dim=-1)


def sync_grads(model, world):
    for p in model.parameters():
        c10d.all_reduce(p.grad)
        p.grad.div_(world)


def main():
    c10d.init_process_group("gloo")
    rank, world = c10d.get_rank(), c10d.get_world_size()
    verbose = rank == 0 or os.environ.get("VERBOSE") == "1"
    torch.manual_seed(7)
    model = TwoTower()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    gen = torch.Generator().manual_seed(100 + rank)
    loss_m, rec_m = SyncedMean("loss"), SyncedMean("recall@1")
    for step in range(1, 121):
        base = torch.randint(0, 4000, (64, 12), generator=gen)
        q, d = base[:, :8], base[:, 4:]
        a, b = model(q, d)
        logits = a @ b.t() / 0.07
        target = torch.arange(64)
        loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        sync_grads(model, world)
        opt.step()
        loss_m.add(loss.detach(), 64)
        rec_m.add((logits.argmax(1) == target).float().mean(), 64)
        if step % 30 == 0 and verbose:
            print(f"step {step:4d} {loss_m} {rec_m}", flush=True)  #: LINE
    c10d.barrier()
    c10d.destroy_process_group()


if __name__ == "__main__":
    main()
