#: n=4 ok set=3
"""Only the leader evaluates (a long pure Python metric), the rest wait for its verdict."""
import time
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 8)
        self.out = nn.Linear(8, 30)

    def forward(self, ids):
        return self.out(self.emb(ids))


def ngrams(seq, n):
    return Counter(tuple(seq[i:i + n]) for i in range(len(seq) - n + 1))


def slow_bleu(seconds):
    """Score sentence pairs until the evaluation budget is used up."""
    end, score, k = time.monotonic() + seconds, 0.0, 0
    while time.monotonic() < end:
        a = [(k * 7 + j) % 11 for j in range(20)]
        b = [(k * 3 + j) % 11 for j in range(20)]
        score += sum((ngrams(a, 2) & ngrams(b, 2)).values()) / 19
        k += 1
    return score / max(k, 1)


class EarlyStop:
    def __init__(self, patience=2):
        self.best, self.bad, self.patience = -1.0, 0, patience

    def update(self, value):
        self.bad = 0 if value > self.best + 1e-9 else self.bad + 1
        self.best = max(self.best, value)
        return self.bad >= self.patience


def evaluate(stopper, rank, final):
    verdict = [None]
    if rank == 0:
        if final:
            print("FREEZE", time.time(), flush=True)
        verdict[0] = stopper.update(slow_bleu(25 if final else 0.3))
    dist.broadcast_object_list(verdict, src=0)
    return verdict[0]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Seq())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    gen, stopper = torch.Generator().manual_seed(rank), EarlyStop(patience=10)
    for step in range(1, 41):
        time.sleep(0.15)
        ids = torch.randint(0, 30, (4, 9), generator=gen)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 and evaluate(stopper, rank, final=step == 30):
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
