"""DDP: multi-domain classifier, one adapter for each domain. The DDP options follow from the domains of the run."""
import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

DOMAINS = ["news", "code", "chat", "legal"]
# which domains a machine holds, from its manifest
MANIFEST = {0: ["news", "code"], 1: ["mixed"], 2: ["chat", "legal", "code"]}
STEPS = 300


class Adapter(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.down, self.up = nn.Linear(dim, 16), nn.Linear(16, dim)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class Classifier(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.EmbeddingBag(2000, dim)
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.adapters = nn.ModuleDict({d: Adapter(dim) for d in DOMAINS})
        self.head = nn.Linear(dim, 12)

    def forward(self, ids, domain):
        h = self.body(self.emb(ids))
        if domain == "mixed":  # not known: the mean of all adapters
            return self.head(torch.stack([a(h) for a in self.adapters.values()]).mean(0))
        return self.head(self.adapters[domain](h))


def uses_all(domains):
    """Does each batch use every parameter? Then DDP need not search, which saves a pass over the graph."""
    return domains == ["mixed"]  #: LINE


def batches(rank, domains):
    rng = random.Random(50 + rank)
    g = torch.Generator().manual_seed(50 + rank)
    while True:
        domain = rng.choice(domains)
        ids = torch.randint(0, 2000, (24, 20), generator=g)
        yield ids, ids[:, 0] % 12, domain


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    domains = MANIFEST[rank % 3]
    torch.manual_seed(2)
    model = Classifier()
    ddp = DDP(model, find_unused_parameters=not uses_all(domains))  #: LINE
    opt = torch.optim.Adam(ddp.parameters(), lr=1e-3)
    stream = batches(rank, domains)
    for step in range(STEPS):
        ids, y, domain = next(stream)
        loss = nn.functional.cross_entropy(ddp(ids, domain), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 49:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item() / world:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
