import datetime
import random
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self, vocab=2000, tags=9):
        super().__init__()
        self.emb = nn.Embedding(vocab, 64)
        self.lstm = nn.LSTM(64, 48, bidirectional=True, batch_first=True)
        self.out = nn.Linear(96, tags)

    def forward(self, ids):
        return self.out(self.lstm(self.emb(ids))[0])


def f1(gold, guess):
    def spans(seq):
        found, start = set(), None
        for i, t in enumerate(list(seq) + [0]):
            if start is not None and t != seq[start]:
                found.add((start, i, seq[start]))
                start = None
            if t and start is None:
                start = i
        return found
    a, b = spans(gold), spans(guess)
    return 2 * len(a & b) / max(len(a) + len(b), 1)


def bootstrap(pairs, rounds):
    """Confidence interval of the mean F1."""
    rng, means = random.Random(0), []
    for _ in range(rounds):
        sample = [rng.choice(pairs) for _ in pairs]
        means.append(sum(f1(g, p) for g, p in sample) / len(sample))  #: LINE
    means.sort()
    return means[len(means) // 40], means[-len(means) // 40]


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=12))  #: LINE
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tagger())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(1000):
        ids = torch.randint(0, 2000, (8, 40), generator=g)
        gold = ids % 9
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), gold.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step % 200 == 199:
            if rank == 0:
                t = time.time()
                with torch.no_grad():
                    dev = torch.randint(0, 2000, (400, 40), generator=g)
                    guess = model.module(dev).argmax(-1)
                pairs = list(zip((dev % 9).tolist(), guess.tolist()))
                low, high = bootstrap(pairs, rounds=20000)  #: LINE
                print(f"dev F1 {low:.3f}..{high:.3f} ({time.time() - t:.0f} s)", flush=True)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
