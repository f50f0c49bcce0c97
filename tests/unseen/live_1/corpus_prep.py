"""The chief tokenises the corpus, the other ranks pick the result up afterwards."""
import hashlib
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist

SHARDS = 36
OUT = os.path.join(tempfile.gettempdir(), "corpus_" + os.environ["MASTER_PORT"])


def tokenise(text):
    return [int(hashlib.md5(w.encode()).hexdigest()[:4], 16) % 1000 for w in text.split()]


def fetch(k):
    time.sleep(2.0)  # the object store is far away
    return " ".join(f"w{(k * 31 + j) % 777}" for j in range(3000))


def prepare():
    os.makedirs(OUT, exist_ok=True)
    for k in range(SHARDS):
        ids = tokenise(fetch(k))
        torch.save(torch.tensor(ids), os.path.join(OUT, f"{k}.pt"))
        print(f"shard {k + 1}/{SHARDS} tokenised", file=sys.stderr, flush=True)


class LM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e = torch.nn.Embedding(1000, 16)
        self.o = torch.nn.Linear(16, 1000)

    def forward(self, x):
        return self.o(self.e(x))


def train(rank, world):
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(LM())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for k in range(rank, SHARDS, world):
        ids = torch.load(os.path.join(OUT, f"{k}.pt"))
        loss = torch.nn.functional.cross_entropy(model(ids[:256]), ids[1:257])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        prepare()
    dist.barrier()
    print(rank, train(rank, world), flush=True)
    dist.destroy_process_group()


main()
