"""Click model with a small in-memory feature cache in front of a slow feature source (DDP)."""
import collections
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class FeatureCache:
    def __init__(self, capacity):
        self._lock = threading.Lock()
        self._rows = collections.OrderedDict()
        self.capacity = capacity
        self.hits = self.misses = 0

    def stats(self):
        with self._lock:  #: LINE
            return {"rows": len(self._rows), "hits": self.hits, "misses": self.misses}

    def _evict(self):
        n = max(1, self.capacity // 10)
        for _ in range(n):
            self._rows.popitem(last=False)
        print("evicted", n, self.stats(), flush=True)  #: LINE

    def lookup(self, key):
        with self._lock:
            row = self._rows.get(key)
            if row is not None:
                self.hits += 1
                self._rows.move_to_end(key)
                return row
            self.misses += 1
            row = torch.randn(64, generator=torch.Generator().manual_seed(key))
            self._rows[key] = row
            if len(self._rows) > self.capacity:
                self._evict()
            return row


def reporter(cache, every):
    while True:
        time.sleep(every)
        cache.stats()


def ids_of(step, rank):
    g = torch.Generator().manual_seed(step * 31 + rank)
    if rank == 1:  # the region with the long tail of items
        return torch.randint(0, 60000, (128,), generator=g)
    return torch.randint(0, 1500, (128,), generator=g)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cache = FeatureCache(capacity=4000)
    threading.Thread(target=reporter, args=(cache, 1.0), daemon=True).start()
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)))
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    for step in range(1, 101):
        keys = ids_of(step, rank)
        x = torch.stack([cache.lookup(int(k)) for k in keys])
        time.sleep(0.05)
        y = (keys % 3 == 0).float().unsqueeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print("step", step, "loss", f"{loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
