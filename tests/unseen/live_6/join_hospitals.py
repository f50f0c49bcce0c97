"""Every rank is a hospital with its own number of patients; DDP's join covers the difference."""
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

PATIENTS = [520, 2300, 860]


def visits(site):
    g = torch.Generator().manual_seed(site)
    for _ in range(PATIENTS[site] // 4):
        x = torch.randn(4, 30, generator=g)
        yield x, (x[:, :3].sum(1, keepdim=True) > 0).float()


def main():
    dist.init_process_group("gloo")
    site = dist.get_rank()
    torch.manual_seed(1)
    model = DDP(nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        n, total = 0, 0.0
        with Join([model]):
            for x, y in visits(site):
                time.sleep(0.05)
                loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                n, total = n + 1, total + loss.item()
        print(f"site {site}: {n} batches in epoch {epoch}", flush=True)
        stats = torch.tensor([float(n), total])
        dist.all_reduce(stats)
        if site == 0:
            print(f"epoch {epoch} loss {stats[1] / stats[0]:.4f}", flush=True)
    del model
    dist.destroy_process_group()


main()
