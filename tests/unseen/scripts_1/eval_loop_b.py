"""Distributed evaluation where the last rank has fewer batches than the others."""
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset


def dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=g)
    return TensorDataset(x, (x[:, 0] > x[:, 1]).long())


def contiguous_split(n, rank, world):
    per = -(-n // world)
    return range(rank * per, min(n, (rank + 1) * per))


def fit(model, loader, epochs):
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    stats = torch.zeros(2)
    for x, y in loader:
        hit = (model.module(x).argmax(1) == y).sum()
        part = torch.stack([hit.float(), torch.tensor(float(len(y)))])
        dist.all_reduce(part)
        stats += part
    return (stats[0] / stats[1]).item(), int(stats[1])


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(6, 2))
    train = dataset(60, 1)
    held = dataset(46, 2)
    train_part = Subset(train, contiguous_split(len(train), rank, world))
    held_part = Subset(held, contiguous_split(len(held), rank, world))
    fit(model, DataLoader(train_part, batch_size=5), epochs=2)
    acc, n = evaluate(model, DataLoader(held_part, batch_size=3))
    if rank == 0:
        print(f"accuracy {acc:.3f} on {n} examples")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
