"""Rank 0 builds an index of the corpus while the others wait for its name in the store; then DDP trains on it."""
import collections
import datetime
import os
import pickle
import random
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SECONDS = 38  # what the index of the real corpus would take, roughly


def build_index(path):
    """Counts neighbours of words, document after document."""
    begin, n = time.time(), 0
    table = collections.defaultdict(collections.Counter)
    rng = random.Random(0)
    while time.time() - begin < SECONDS:
        words = [min(int(rng.expovariate(0.02)), 499) for _ in range(400)]
        for a, b in zip(words, words[1:]):
            table[a][b] += 1
        n += 1
        if n % 2000 == 0:
            print(f"index: {n} documents, {len(table)} words", flush=True)
    pairs = [(a, b) for a, c in table.items() for b, _ in c.most_common(20)]
    with open(path, "wb") as f:
        pickle.dump(pairs, f)


class SkipGram(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.left, self.out = nn.Embedding(500, dim), nn.Linear(dim, 500)

    def forward(self, a):
        return self.out(self.left(a))


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("corpus", dist.distributed_c10d._get_default_store())
    if rank == 0:
        path = os.path.join(tempfile.mkdtemp(prefix="index-"), "pairs.pkl")
        build_index(path)
        store.set("index", path)
    else:
        store.wait(["index"], datetime.timedelta(minutes=20))
    with open(store.get("index").decode(), "rb") as f:
        pairs = torch.tensor(pickle.load(f))
    torch.manual_seed(0)
    model = DDP(SkipGram())
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(400):
        rows = pairs[torch.randint(0, len(pairs), (64,), generator=g)]
        loss = nn.functional.cross_entropy(model(rows[:, 0]), rows[:, 1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
