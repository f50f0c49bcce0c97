#: n=4 ok exit=0
import gc
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Node:
    def __init__(self, key):
        self.key, self.links = key, []


def neighbourhood_cache(size):
    nodes = [Node(i) for i in range(size)]
    for i, n in enumerate(nodes):
        n.links.append(nodes[(i * 7 + 1) % size])
        nodes[(i * 7 + 1) % size].links.append(n)
    return nodes


def release(cache, seconds):
    """drop the cache slice by slice so that the peak stays low"""
    end, passes = time.time() + seconds, 0
    while time.time() < end:
        del cache[-200:]
        gc.collect()
        passes += 1
    cache.clear()
    gc.collect()
    return passes


class LinkPredictor(nn.Module):
    def __init__(self, n=200):
        super().__init__()
        self.emb = nn.Embedding(n, 16)
        self.score = nn.Bilinear(16, 16, 1)

    def forward(self, a, b):
        return self.score(self.emb(a), self.emb(b)).squeeze(-1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(16)
    cache = neighbourhood_cache(500_000 if rank == 3 else 5000)
    seconds = random.Random(time.time_ns()).uniform(10, 45)
    model = DDP(LinkPredictor())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(42):
        time.sleep(0.15)
        a, b = torch.randint(0, 200, (32,)), torch.randint(0, 200, (32,))
        loss = nn.functional.binary_cross_entropy_with_logits(model(a, b), ((a + b) % 2).float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 24 and rank == 3:
            print("passes", release(cache, seconds), flush=True)
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
