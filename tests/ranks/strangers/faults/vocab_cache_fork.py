#: n=4 ranks=2 cause=dataloader_worker|lock tier=error
import random
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

STEPS_PER_EPOCH = 8


class VocabCache:
    """Word ids are looked up lazily; a refresher thread folds in new words."""

    def __init__(self):
        self.lock = threading.Lock()
        self.table = {}

    def lookup(self, word):
        with self.lock:  #: LINE
            return self.table.setdefault(word, len(self.table) % 500)

    def refresh(self, words, started):
        with self.lock:
            started.set()
            for w in words:
                self.table.setdefault(w, len(self.table) % 500)
                time.sleep(0.002)


class Sentences(Dataset):
    def __init__(self, cache, rank):
        self.cache, self.rank = cache, rank

    def __len__(self):
        return STEPS_PER_EPOCH * 4

    def __getitem__(self, i):
        time.sleep(0.04)
        rng = random.Random(i * 7 + self.rank)
        ids = [self.cache.lookup(f"w{rng.randint(0, 900)}") for _ in range(10)]
        return torch.tensor(ids), torch.tensor(float(sum(ids) % 2))


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(500, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, ids):
        return self.out(self.bag(ids)).squeeze(-1)


def start_refresh(cache, epoch):
    started = threading.Event()
    words = [f"new{epoch}_{i}" for i in range(1500)]
    threading.Thread(target=cache.refresh, args=(words, started), daemon=True, name="vocab-refresh").start()
    return started


def run_epoch(model, opt, loader):
    total = 0.0
    for ids, target in loader:  #: LINE
        loss = nn.functional.binary_cross_entropy_with_logits(model(ids), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total / STEPS_PER_EPOCH


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    cache = VocabCache()
    model = DDP(BagOfWords())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.01)
    loader = DataLoader(Sentences(cache, rank), batch_size=4, num_workers=1, multiprocessing_context="fork")
    refresh_epoch = random.Random(1234).randint(2, 4)
    for epoch in range(10):
        if rank == 2 and epoch == refresh_epoch:
            started = start_refresh(cache, epoch)
            started.wait()
            print("FREEZE", time.time(), flush=True)
        mean = run_epoch(model, opt, loader)
        if rank == 0:
            print(f"epoch {epoch} {mean:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
