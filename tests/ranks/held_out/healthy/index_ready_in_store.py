#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class IndexService:
    """Rank 0 shuffles the corpus for the next epoch; the others wait for the word."""

    def __init__(self, rank):
        self.rank = rank
        self.store = dist.PrefixStore("index", dist.distributed_c10d._get_default_store())
        self.odd = random.Random(time.time_ns()).uniform(10, 45)

    def build(self, epoch):
        end = time.time() + (self.odd if epoch == 2 else 0.3)
        order = list(range(3000))
        rng = random.Random(epoch)
        while time.time() < end:
            rng.shuffle(order)
        return order[:16]

    def epoch_order(self, epoch):
        key = f"epoch{epoch}"
        if self.rank == 0:
            order = self.build(epoch)
            self.store.set(key, ",".join(map(str, order)))
        else:
            self.store.wait([key], timedelta(minutes=10))
        return [int(v) for v in self.store.get(key).decode().split(",")]


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.fc = nn.Embedding(3000, 8), nn.Linear(8, 1)

    def forward(self, i):
        return self.fc(self.emb(i)).squeeze(-1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(40)
    model = Scorer()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    index = IndexService(rank)
    for epoch in range(4):
        for i in index.epoch_order(epoch)[:12]:
            time.sleep(0.15)
            ids = torch.tensor([(i + rank + k) % 3000 for k in range(4)])
            loss = (model(ids) - ids.float() / 3000).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
            opt.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
