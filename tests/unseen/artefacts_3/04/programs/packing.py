import random
from collections import deque

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import flightrec  # noqa: F401

MAX_LEN = 512


def documents(rank, n=3000):
    rng = random.Random(90 + rank)
    for i in range(n):
        size = int(rng.lognormvariate(4.2, 0.7)) + 1
        yield [rng.randrange(1, 1000) for _ in range(size)]


def pack(docs, rows):
    """Fills `rows` rows of MAX_LEN tokens, documents are never cut."""
    queue = deque(docs)
    done = []
    row = []
    while queue and len(done) < rows:
        room = MAX_LEN - len(row)
        if len(queue[0]) <= room:
            row.extend(queue.popleft())
        else:
            if row:
                done.append(row + [0] * room)
            row = []
    return torch.tensor(done), queue


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1000, 24, padding_idx=0)
        self.out = nn.Linear(24, 1000)

    def forward(self, ids):
        ctx = self.emb(ids[:, :-1]).cumsum(1)
        return nn.functional.cross_entropy(self.out(ctx[:, ::16]).flatten(0, 1), ids[:, 1::16].flatten())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(Bag())
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    source = documents(rank)
    pending = []
    for step in range(400):
        while len(pending) < 90:
            pending.append(next(source))
        rows, pending = pack(pending, rows=4)
        pending = list(pending)
        loss = model(rows)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print("step", step, "loss", round(loss.item(), 3), flush=True)
    dist.destroy_process_group()


main()
