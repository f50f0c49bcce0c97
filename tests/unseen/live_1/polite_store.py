"""Epoch fences made of counters in the store, with a message of who is in."""
import time

import torch
import torch.distributed as dist


class Fence:
    def __init__(self, store, world):
        self.store, self.world = store, world

    def enter(self, name):
        n = self.store.add(f"fence/{name}", 1)
        return n

    def wait(self, name):
        while self.store.add(f"fence/{name}", 0) < self.world:
            time.sleep(0.2)


class Sampler:
    def __init__(self, rank):
        self.rank = rank
        self.g = torch.Generator().manual_seed(rank)

    def negatives(self, epoch):
        pool = torch.randint(0, 50, (40,), generator=self.g)
        if self.rank == 3 and epoch == 3:
            pool = pool[:0]
        return pool


def train_epoch(emb, pool):
    if len(pool) == 0:
        return None
    for part in pool.split(10):
        emb(part).pow(2).mean().backward()
        emb.weight.data -= 0.1 * emb.weight.grad
        emb.weight.grad = None
    return emb.weight.norm().item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    fence = Fence(dist.distributed_c10d._get_default_store(), world)
    emb, sampler = torch.nn.Embedding(50, 8), Sampler(rank)
    for epoch in range(8):
        norm = train_epoch(emb, sampler.negatives(epoch))
        if norm is None:
            continue  #: LINE
        fence.enter(epoch)
        fence.wait(epoch)
        print(f"rank {rank} epoch {epoch} norm {norm:.3f}", flush=True)
    dist.all_reduce(emb.weight.data)
    dist.destroy_process_group()


main()
