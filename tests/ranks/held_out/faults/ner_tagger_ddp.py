#: n=4 ranks=2 cause=skipped_collective tier=error set=3
"""Tiny named-entity tagger with DDP; span statistics are merged every few steps."""
import os
import time
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

TAGS = ["O", "PER", "LOC", "ORG"]
REPORT_EVERY = 6


class Tagger(nn.Module):
    def __init__(self, vocab=64, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.word_head = nn.Linear(dim, len(TAGS))
        self.char_head = nn.Linear(dim, len(TAGS))

    def forward(self, ids, use_chars):
        h, _ = self.rnn(self.emb(ids))
        return self.char_head(h) if use_chars else self.word_head(h)


class Corpus:
    """Documents of one shard. Shard 2 holds a chapter of plain boilerplate."""

    def __init__(self, shard):
        self.shard = shard
        self.g = torch.Generator().manual_seed(100 + shard)

    def batch(self, step):
        time.sleep(0.12)
        ids = torch.randint(0, 64, (4, 10), generator=self.g)
        tags = torch.randint(0, len(TAGS), (4, 10), generator=self.g)
        if self.shard == 2 and 18 <= step < 24:
            tags.zero_()
        return ids, tags


class SpanReport:
    def __init__(self):
        self.window = Counter()

    def add(self, tags):
        for t in tags.flatten().tolist():
            if t:
                self.window[TAGS[t]] += 1

    def merge(self):
        if not self.window:  #: LINE
            print("FREEZE", time.time(), flush=True)
            return None
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, dict(self.window))
        self.window.clear()
        total = Counter()
        for p in parts:
            total.update(p)
        return total


def train(rank, steps=60):
    torch.manual_seed(0)
    model = DDP(Tagger(), find_unused_parameters=True)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    corpus, report = Corpus(rank), SpanReport()
    for step in range(steps):
        ids, tags = corpus.batch(step)
        logits = model(ids, use_chars=step % 4 == 3)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()  #: LINE
        opt.step()
        report.add(tags)
        if (step + 1) % REPORT_EVERY == 0:
            total = report.merge()
            if rank == 0:
                print(f"step {step} loss {loss.item():.3f} spans {dict(total)}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    train(int(os.environ["RANK"]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
