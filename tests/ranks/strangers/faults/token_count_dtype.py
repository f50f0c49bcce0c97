#: n=8 ranks=6 cause=dtype tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class PackedCorpus:
    def __init__(self, rank, weighted_from):
        self.rng = torch.Generator().manual_seed(rank)
        self.weighted_from = weighted_from
        self.step = 0

    def batch(self):
        time.sleep(0.15)
        ids = torch.randint(0, 64, (4, 12), generator=self.rng)
        keep = torch.rand(4, 12, generator=self.rng) > 0.2
        weights = keep
        if self.weighted_from is not None and self.step >= self.weighted_from:
            if self.step == self.weighted_from:
                print("FREEZE", time.time(), flush=True)
            weights = keep * torch.linspace(0.5, 1.0, 12)
        self.step += 1
        return ids, weights


class BigramLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 16)
        self.head = nn.Linear(16, 64)

    def forward(self, ids):
        return self.head(self.table(ids))


def count_tokens(weights):
    n = weights.sum()
    return n.to(torch.int32).reshape(1) if not n.is_floating_point() else n.reshape(1)


def token_normalised_loss(model, ids, weights):
    logits = model(ids[:, :-1])
    raw = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    w = weights[:, 1:].flatten().float()
    total = count_tokens(weights)
    dist.all_reduce(total)  #: LINE
    return (raw * w).sum() / total.float().clamp(min=1.0)


def sync_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(8)
    model = BigramLM()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    change = random.Random(314).randint(16, 25)
    corpus = PackedCorpus(rank, weighted_from=change if rank == 6 else None)
    for step in range(140):
        ids, weights = corpus.batch()
        loss = token_normalised_loss(model, ids, weights)
        opt.zero_grad()
        loss.backward()
        sync_gradients(model)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(step, float(loss), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
