#: n=4 ranks=3 cause=uneven_data tier=error set=2
"""Sentiment model for mixed-source reviews (DDP, gloo).

    torchrun --nproc-per-node 4 review_sentiment.py
"""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

SOURCES = ("shop", "app", "travel", "longform")
MAX_TOKENS = 512
BATCH = 8
VOCAB = 1024


def read_corpus(n_docs):
    """The four sources are interleaved so that any prefix is balanced."""
    for i in range(n_docs):
        source = SOURCES[i % len(SOURCES)]
        if source == "longform":
            length = 380 + (i * 37) % 200
        else:
            length = 60 + (i * 13) % 200
        yield {"id": i, "source": source, "length": length, "label": (i // 3) % 2}


class ShardedReviews:
    """Every rank takes each world_size-th review; over-long ones are dropped."""

    def __init__(self, n_docs, rank, world_size):
        mine = [d for d in read_corpus(n_docs) if d["id"] % world_size == rank]
        self.docs = [d for d in mine if d["length"] <= MAX_TOKENS]

    def batches(self):
        for lo in range(0, len(self.docs) - BATCH + 1, BATCH):
            chunk = self.docs[lo : lo + BATCH]
            time.sleep(0.15)  # tokenizer
            tokens, offsets = [], []
            for d in chunk:
                offsets.append(len(tokens))
                tokens.extend((d["id"] * 7 + k * 31) % VOCAB for k in range(d["length"]))
            labels = torch.tensor([float(d["label"]) for d in chunk])
            mean_len = sum(d["length"] for d in chunk) / len(chunk)
            yield torch.tensor(tokens), torch.tensor(offsets), labels, mean_len


class SentimentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(VOCAB, 24, mode="mean")
        self.long_adapter = nn.Linear(24, 24)
        self.head = nn.Linear(24, 1)

    def forward(self, tokens, offsets, mean_len):
        h = self.emb(tokens, offsets)
        if mean_len > 320:
            h = h + torch.tanh(self.long_adapter(h))
        return self.head(h).squeeze(-1)


def train_epoch(ddp, opt, data, rank):
    loss_fn = nn.BCEWithLogitsLoss()
    seen = 0
    for step, (tokens, offsets, labels, mean_len) in enumerate(data.batches()):
        loss = loss_fn(ddp(tokens, offsets, mean_len), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += labels.numel()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    return seen


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1234)
    ddp = DDP(SentimentNet(), find_unused_parameters=True)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    data = ShardedReviews(1000, rank, world)

    for epoch in range(int(os.environ.get("EPOCHS", "2"))):
        seen = train_epoch(ddp, opt, data, rank)
        print("FREEZE", time.time(), flush=True)
        report = [None] * world
        dist.all_gather_object(report, {"rank": rank, "seen": seen})  #: LINE
        if rank == 0:
            print("epoch", epoch, report, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
