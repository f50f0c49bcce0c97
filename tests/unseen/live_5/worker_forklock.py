"""DDP on text, tokenised in data workers; a vocabulary service in the trainer refreshes its table now and then."""
import os
import random
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Vocabulary:
    """Words to numbers. A thread of the trainer merges new words into the table under the lock."""

    def __init__(self, words):
        self.lock = threading.Lock()
        self.table = {w: i for i, w in enumerate(words)}
        self.dirty = threading.Event()

    def encode(self, words):
        with self.lock:  #: LINE
            return [self.table.get(w, 0) for w in words]

    def refresh_loop(self):
        while True:
            self.dirty.wait()
            self.dirty.clear()
            with self.lock:  #: LINE
                merged = dict(self.table)
                for k in range(12):  # reads the lists of twelve crawls
                    time.sleep(0.1)
                    merged.update({f"new{k}-{j}": (k * 37 + j) % 900 for j in range(2000)})
                self.table = merged


class Texts(Dataset):
    def __init__(self, rank, epoch, vocab):
        self.rank, self.epoch, self.vocab = rank, epoch, vocab

    def __len__(self):
        return 1600

    def __getitem__(self, i):
        rng = random.Random(f"{self.rank}/{self.epoch}/{i}")
        words = [f"w{rng.randint(0, 899)}" for _ in range(40)]
        ids = self.vocab.encode(words)
        return torch.tensor(ids), ids[0] % 7


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(900, 64)
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 7))

    def forward(self, ids):
        return self.net(self.emb(ids))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Bag())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    vocab = Vocabulary([f"w{i}" for i in range(900)])
    threading.Thread(target=vocab.refresh_loop, daemon=True, name="vocab-refresh").start()
    for epoch in range(6):
        loader = DataLoader(Texts(rank, epoch, vocab), batch_size=16, num_workers=2)
        for step, (ids, y) in enumerate(loader):  #: LINE
            loss = nn.functional.cross_entropy(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step == 99 and epoch % 3 == 2 and rank == 1:
                vocab.dirty.set()  # the crawl of this machine has found new words
                time.sleep(0.05)
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / world:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
