# Click-through model on sharded log files; every rank reads its own shards.
import os
import sys

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

DATA = sys.argv[1]
FIELDS, ROWS, BATCH, EPOCHS = 12, 640, 64, 3


def write_shards(n):
    os.makedirs(DATA, exist_ok=True)
    for i in range(n):
        g = torch.Generator().manual_seed(i)
        x = torch.randint(0, 1000, (ROWS, FIELDS), generator=g)
        y = (x[:, 0] % 3 == 0).float()
        torch.save((x, y), f"{DATA}/clicks-{i:05d}.pt")


class ClickShards(IterableDataset):
    def __init__(self, files, rank, world):
        self.files = sorted(files)[rank::world]

    def __iter__(self):
        for path in self.files:
            x, y = torch.load(path)
            yield from zip(x, y)


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1000, 8)
        self.mlp = nn.Sequential(nn.Linear(FIELDS * 8, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.mlp(self.emb(x).flatten(1)).squeeze(1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        write_shards(8)
    dist.barrier()

    files = [os.path.join(DATA, f) for f in os.listdir(DATA)]
    loader = DataLoader(ClickShards(files, rank, world), batch_size=BATCH)
    model = DistributedDataParallel(WideDeep())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.BCEWithLogitsLoss()

    for epoch in range(EPOCHS):
        total, n = 0.0, 0
        for x, y in loader:
            loss = loss_fn(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            n += 1
            if n % 10 == 0 and rank == 0:
                print(f"epoch {epoch} batch {n} loss {total / n:.4f}", flush=True)
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), f"{DATA}/../wide_deep_{epoch}.pt")

    dist.destroy_process_group()


main()
