"""Every rank warms a small search index; a counter in the store says when all are ready."""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

DIM = 24


class Index:
    def __init__(self, rank, world, store):
        self.rank, self.world, self.store = rank, world, store
        self.path = os.path.join(tempfile.gettempdir(), f"warm-{os.getppid()}-{rank % 3}.pt")
        self.vectors = None

    def build(self):
        time.sleep(0.4 + (1.6 if self.rank == 3 else 0))
        g = torch.Generator().manual_seed(self.rank % 3)
        return torch.randn(500, DIM, generator=g)

    def warm(self):
        if os.path.exists(self.path):
            self.vectors = torch.load(self.path)
            return  #: LINE
        self.vectors = self.build()
        if self.rank < 3:
            torch.save(self.vectors, self.path)
        self.store.add("index/ready", 1)

    def wait_for_all(self):
        while self.store.add("index/ready", 0) < self.world:
            time.sleep(0.05)

    def search(self, query):
        return (self.vectors @ query).topk(3).values


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("warm", c10d._get_default_store())
    index = Index(rank, world, store)
    if rank == 3:
        time.sleep(3.0)  # starts later, its disk is slow
    index.warm()
    index.wait_for_all()
    for step in range(40):
        query = torch.randn(DIM, generator=torch.Generator().manual_seed(step))
        best = index.search(query)
        dist.all_reduce(best, op=dist.ReduceOp.MAX)
        if rank == 0:
            print(f"query {step}: {best.tolist()}", flush=True)
        time.sleep(0.1)
    dist.barrier()
    if rank < 3:
        os.unlink(index.path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
