#: n=4 ok set=3
"""Vocabulary is rebuilt mid-training on rank 3, published through the default store."""
import pickle
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.distributed_c10d import _get_default_store
from torch.nn.parallel import DistributedDataParallel as DDP


class VocabService:
    OWNER = 3

    def __init__(self, rank):
        self.rank = rank
        self.store = dist.PrefixStore("vocab", _get_default_store())
        self.version = 0

    def _rebuild(self):
        table = {}
        for chunk in range(20):
            time.sleep(1.0)                 # merges are computed chunk by chunk
            table.update({f"w{chunk}_{i}": chunk * 10 + i for i in range(10)})
        return table

    def refresh(self):
        self.version += 1
        key = f"v{self.version}"
        if self.rank == self.OWNER:
            print("FREEZE", time.time(), flush=True)
            self.store.set(key, pickle.dumps(self._rebuild()))
        else:
            self.store.wait([key], timedelta(minutes=5))
        return pickle.loads(self.store.get(key))


class Bag(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, 8)
        self.cls = nn.Linear(8, 2)

    def forward(self, ids):
        return self.cls(self.emb(ids))


def batch(gen, vocab_size):
    time.sleep(0.15)
    ids = torch.randint(0, vocab_size, (6, 5), generator=gen)
    return ids, ids[:, 0] % 2


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Bag(200))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    service, gen = VocabService(rank), torch.Generator().manual_seed(rank)
    size = 50
    for step in range(45):
        if step == 22:
            size = len(service.refresh())
        ids, y = batch(gen, size)
        loss = nn.functional.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} vocab {size} loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
