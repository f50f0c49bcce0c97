import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

ROWS = [56, 88]


def local_records(rank, batch):
    """Records stay where they were taken, so the two sites have unequal numbers."""
    g = torch.Generator().manual_seed(rank)
    x = torch.randn(ROWS[rank % len(ROWS)], 9, generator=g)
    y = (x[:, :3].sum(1, keepdim=True) > 0.5).float()
    return list(zip(x.split(batch), y.split(batch)))


class Progress:
    def __init__(self):
        self.loss = torch.zeros(1)
        self.steps = torch.zeros(1)

    def note(self, loss):
        self.loss += loss.detach()
        self.steps += 1

    def mean(self):
        both = torch.cat([self.loss, self.steps])
        dist.all_reduce(both)
        return (both[0] / both[1]).item()


def run_epoch(model, opt, records):
    progress = Progress()
    criterion = nn.BCEWithLogitsLoss()
    with Join([model]):
        for x, y in records:
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
            progress.note(loss)
    return progress.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    opts = parser.parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    records = local_records(rank, opts.batch)
    for epoch in range(opts.epochs):
        mean = run_epoch(model, opt, records)
        if rank == 0:
            print(f"epoch {epoch} mean loss {mean:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
