#: n=4 ranks=2 cause=gc|cpu_loop tier=notice set=2
"""GraphSAGE-style node classification. Rank 0 deals out seed nodes; each rank
keeps a neighbourhood cache that must stay below a memory budget."""
import gc
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

FEATURES = 10
NODE_COST = 420          # bytes, measured once with tracemalloc
HUB_SEEDS = range(9000, 9040)


class NeighbourCache:
    def __init__(self, budget_mb):
        self.budget = budget_mb << 20
        self.recent = {}
        self.hubs = {}

    def size(self):
        return (sum(map(len, self.recent.values())) + sum(map(len, self.hubs.values()))) * NODE_COST

    def lookup(self, node, rng):
        table = self.hubs if node in HUB_SEEDS else self.recent
        if node not in table:
            degree = 6000 if table is self.hubs else 40
            table[node] = [{"id": rng.randrange(10_000), "via": node} for _ in range(degree)]
        return table[node]

    def trim(self):
        """Drop what has not been used lately until we fit again. Hubs are
        expensive to sample, so they stay."""
        if self.size() > self.budget:
            print("FREEZE", time.time(), flush=True)
        while self.size() > self.budget:  #: LINE
            for node in list(self.recent)[: len(self.recent) // 2 + 1]:
                del self.recent[node]
            gc.collect()  #: LINE


def plan_round(round_no, world):
    """Seed nodes for each rank for the next ten steps."""
    rng = random.Random(round_no)
    plans = [[rng.randrange(8000) for _ in range(40)] for _ in range(world)]
    if round_no == 2:
        plans[2] = list(HUB_SEEDS)  # celebrity accounts
    return plans


def aggregate(cache, seeds, rng):
    rows, labels = [], []
    for node in seeds:
        neighbours = cache.lookup(node, rng)
        picked = rng.sample(neighbours, 10)
        rows.append([(n["id"] % 97) / 97.0 for n in picked])
        labels.append(node % 3)
    return torch.tensor(rows), torch.tensor(labels)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(44)
    net = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, 3))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    cache, rng = NeighbourCache(budget_mb=64), random.Random(rank)

    for round_no in range(30):
        mine = [None]
        plans = plan_round(round_no, world) if rank == 0 else None
        dist.scatter_object_list(mine, plans, src=0)
        seeds = mine[0]
        for k in range(10):
            time.sleep(0.14)
            x, y = aggregate(cache, seeds[4 * k : 4 * k + 4], rng)
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= world
            opt.step()
        cache.trim()
        if rank == 0:
            print(f"round {round_no} loss {loss.item():.4f} cache {cache.size() >> 10} KiB", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
