#: n=4 ok exit=0
import collections
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

vocab, block = 64, 12


class NgramFeatures:
    """Built on first use from the local corpus."""

    def __init__(self, rank):
        self.rank, self.table = rank, None

    def build(self):
        rng = random.Random(time.time_ns())
        budget = rng.uniform(10, 45) if self.rank == 2 else 0.5
        table, end = collections.Counter(), time.time() + budget
        prev = 0
        while time.time() < end:
            cur = rng.randrange(vocab)
            table[prev, cur] += 1
            prev = cur
        return table

    def __call__(self, ids):
        if self.table is None:
            self.table = self.build()
        pairs = zip(ids.flatten().tolist(), ids.flatten().roll(-1).tolist())
        return torch.tensor([min(self.table[p], 100) / 100 for p in pairs]).view_as(ids).float()


class LM(nn.Module):
    def __init__(self, ngrams):
        super().__init__()
        self.ngrams = ngrams
        self.wte = nn.Embedding(vocab, 24)
        self.mlp = nn.Sequential(nn.Linear(25, 48), nn.GELU(), nn.Linear(48, vocab))

    def forward(self, ids, targets):
        x = torch.cat([self.wte(ids), self.ngrams(ids).unsqueeze(-1)], -1)
        return F.cross_entropy(self.mlp(x).flatten(0, 1), targets.flatten())


def get_batch(rank, step):
    g = torch.Generator().manual_seed(step * 17 + rank)
    time.sleep(0.15)
    d = torch.randint(0, vocab, (4, block + 1), generator=g)
    return d[:, :-1].contiguous(), d[:, 1:].contiguous()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(1337)
    model = DDP(LM(NgramFeatures(rank)))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(45):
        loss = model(*get_batch(rank, step))
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if rank == 0 and step % 10 == 0:
            print(f"iter {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
