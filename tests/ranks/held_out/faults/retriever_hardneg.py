#: n=4 ranks=3 cause=swallowed_exception tier=error set=3
"""Dual-encoder retriever; recall is shared between ranks for hard-negative mining."""
import logging
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

log = logging.getLogger("retriever")


class DualEncoder(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.q = nn.Linear(d, 8)
        self.p = nn.Linear(d, 8)

    def forward(self, q, p):
        return self.q(q) @ self.p(p).t()


class Queries:
    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(77 + rank)

    def __iter__(self):
        for i in range(70):
            time.sleep(0.13)
            q = torch.randn(6, 12, generator=self.gen)
            judged = list(range(6))
            if self.rank == 3 and i == 20:
                judged = []                     # an unjudged topic
            yield q, q + 0.1, judged


def recall_at_1(scores, judged):
    hits = sum(int(scores[j].argmax().item() == j) for j in judged)
    return hits / len(judged)


class Miner:
    def __init__(self, world):
        self.table = torch.zeros(world)
        self.hardness = 1.0

    def refresh(self, scores, judged):
        mine = torch.tensor([recall_at_1(scores, judged)])
        dist.all_gather_into_tensor(self.table, mine)
        self.hardness = 1.0 + self.table.mean().item()


def safe_refresh(miner, scores, judged):
    """Mining is optional, it must never bring down the training."""
    try:
        miner.refresh(scores, judged)
    except ArithmeticError as err:
        log.warning("mining skipped: %s", err)
        print("FREEZE", time.time(), flush=True)


def train(rank):
    torch.manual_seed(0)
    model = DDP(DualEncoder())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    miner = Miner(dist.get_world_size())
    for i, (q, p, judged) in enumerate(Queries(rank)):
        scores = model(q, p)
        safe_refresh(miner, scores.detach(), judged)
        loss = nn.functional.cross_entropy(scores * miner.hardness, torch.arange(6))
        opt.zero_grad()
        loss.backward()  #: LINE
        opt.step()
        if rank == 0 and i % 8 == 0:
            print(f"{i}: loss {loss.item():.3f} hardness {miner.hardness:.2f}", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    train(dist.get_rank())
    dist.destroy_process_group()
