#: n=4 ranks=3 cause=shape tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class TokenClassifier(nn.Module):
    def __init__(self, vocab=128, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.out(h.mean(1))


class LengthCurriculum:
    def __init__(self, switch, multiple):
        self.switch, self.multiple = switch, multiple

    def length(self, step):
        wanted = 48 if step < self.switch else 64
        return -(-wanted // self.multiple) * self.multiple


class BatchServer:
    """Rank 0 owns the corpus and hands the same batch to everybody."""

    def __init__(self, rank, batch=4):
        self.rank, self.batch = rank, batch
        self.rng = torch.Generator().manual_seed(77)

    def read(self, length):
        time.sleep(0.12)
        return torch.randint(1, 128, (self.batch, length), generator=self.rng)

    def next(self, length):
        ids = self.read(length) if self.rank == 0 else torch.zeros(self.batch, length, dtype=torch.long)
        dist.broadcast(ids, src=0)  #: LINE
        return ids


def label(ids):
    return (ids.sum(1) % 2).long()


def train_step(model, opt, ids):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(ids), label(ids))
    loss.backward()
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(21)
    model = DDP(TokenClassifier())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    switch = random.Random(515).randint(16, 28)
    tuned_for_host = {3: 24}
    curriculum = LengthCurriculum(switch, tuned_for_host.get(rank, 16))
    server = BatchServer(rank)
    running = 0.0
    for step in range(150):
        if step == switch and rank == 3:
            print("FREEZE", time.time(), flush=True)
        ids = server.next(curriculum.length(step))
        running = 0.9 * running + 0.1 * train_step(model, opt, ids)
        time.sleep(0.05)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} len {ids.shape[1]} loss {running:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
