#: n=4 ranks=2 cause=uneven_data tier=error set=3
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

SHARD_ROWS = {0: 400, 1: 404, 2: 160, 3: 408}     # rows per review dump
BATCH = 8


class ReviewShard(IterableDataset):
    def __init__(self, shard):
        self.rows = SHARD_ROWS[shard % 4]
        self.seed = shard

    def __iter__(self):
        gen = torch.Generator().manual_seed(self.seed)
        for _ in range(self.rows):
            time.sleep(0.02)
            words = torch.randint(0, 80, (12,), generator=gen)
            yield words, (words.float().mean() > 40).float()


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(80, 12)
        self.cls = nn.Linear(12, 1)

    def forward(self, ids):
        return self.cls(self.bag(ids)).squeeze(-1)


class Ema:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow, model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)


def train_epoch(model, ema, opt, loader, rank):
    seen = 0
    for i, (ids, label) in enumerate(loader):
        loss = nn.functional.binary_cross_entropy_with_logits(model(ids), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model.module)
        seen += ids.size(0)
        if rank == 0 and i % 5 == 0:
            print(f"batch {i} loss {loss.item():.3f}", flush=True)
    return seen


def finish_epoch(rank, seen):
    print(f"rank {rank}: {seen} reviews")
    if seen < 300:
        print("FREEZE", time.time(), flush=True)
    dist.barrier()  #: LINE


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(BagOfWords())
    ema = Ema(model.module)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(ReviewShard(rank), batch_size=BATCH, drop_last=True)
    for epoch in range(2):
        seen = train_epoch(model, ema, opt, loader, rank)
        finish_epoch(rank, seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
