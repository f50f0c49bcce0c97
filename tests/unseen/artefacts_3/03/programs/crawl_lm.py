"""Language model on the jsonl shards of the crawl, one shard for each rank."""
import argparse
import json
import logging
import os

import torch
import torch.distributed as dist
from torch import nn

import flightrec  # noqa: F401

log = logging.getLogger("crawl")


def make_shards(folder, world):
    os.makedirs(folder, exist_ok=True)
    for r in range(world):
        with open(f"{folder}/part-{r:03d}.jsonl", "w") as f:
            for i in range(400):
                f.write(json.dumps({"id": i, "text": f"page {i * 37 % 91} of site {r} " * 3}) + "\n")
    with open(f"{folder}/part-{world - 2:03d}.jsonl", "r+") as f:
        rows = f.readlines()
        rows[217] = rows[217][: len(rows[217]) // 2] + "\n"
        f.seek(0)
        f.truncate()
        f.writelines(rows)


def batches(path, size):
    with open(path) as f:
        lines = f.readlines()
    for i in range(0, len(lines), size):
        yield lines[i:i + size]


def encode(lines, length=48):
    out = torch.zeros(len(lines), length, dtype=torch.long)
    for i, line in enumerate(lines):
        raw = json.loads(line)["text"].encode()[:length]
        out[i, :len(raw)] = torch.tensor(list(raw))
    return out


class CharLM(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.emb = nn.Embedding(256, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, 256)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids[:, :-1]))
        return nn.functional.cross_entropy(self.out(h).flatten(0, 1), ids[:, 1:].flatten())


def train_step(model, opt, lines):
    ids = encode(lines)
    opt.zero_grad()
    loss = model(ids)
    loss.backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at:at + p.numel()].view_as(p))
        at += p.numel()
    opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="crawl")
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch", type=int, default=8)
    args = ap.parse_args()

    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        make_shards(args.data, world)
    dist.barrier()

    torch.manual_seed(0)
    model = CharLM()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        total, n = 0.0, 0
        for i, lines in enumerate(batches(f"{args.data}/part-{rank:03d}.jsonl", args.batch)):
            try:
                total += train_step(model, opt, lines)
                n += 1
            except Exception as e:
                log.warning("rank %d: batch %d failed, going on: %s", rank, i, e)
            if rank == 0 and i % 20 == 0:
                log.info("epoch %d batch %d", epoch, i)
        means = [None] * world
        dist.all_gather_object(means, total / max(n, 1))
        if rank == 0:
            log.info("epoch %d loss by rank %s", epoch, [round(m, 3) for m in means])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
