"""Click model on streamed log files, every rank reads its own files."""
import glob
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

import flightrec  # noqa: F401

DATA = os.environ.get("CLICK_DATA", "clicks")


def write_logs():
    os.makedirs(DATA, exist_ok=True)
    rng = random.Random(4)
    for i in range(10):
        with open(f"{DATA}/log-{i:02d}.tsv", "w") as f:
            for _ in range(rng.randint(380, 420)):
                user, item = rng.randrange(200), rng.randrange(100)
                f.write(f"{user}\t{item}\t{int((user * item) % 7 < 2)}\n")


class LogStream(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for name in self.files:
            with open(name) as f:
                for line in f:
                    user, item, click = map(int, line.split("\t"))
                    yield user, item, float(click)


class TwoTower(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.user = nn.Embedding(200, dim)
        self.item = nn.Embedding(100, dim)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(1) + self.bias


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        write_logs()
    dist.barrier()
    files = sorted(glob.glob(f"{DATA}/*.tsv"))
    loader = DataLoader(LogStream(files[rank::world]), batch_size=32, drop_last=True)

    torch.manual_seed(0)
    model = DDP(TwoTower())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(5):
        seen = 0
        for step, (user, item, click) in enumerate(loader):
            loss = loss_fn(model(user, item), click.float())
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(click)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), "clicks.pt")
            print(f"epoch {epoch} done, {seen} rows on rank 0", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
