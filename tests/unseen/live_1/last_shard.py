"""Tabular regression, DDP; every rank reads its own csv shard."""
import csv
import io
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

ROWS = {0: 640, 1: 640, 2: 640, 3: 610}


def shard_csv(rank):
    rng = random.Random(rank)
    buf = io.StringIO()
    w = csv.writer(buf)
    for _ in range(ROWS.get(rank, 640)):
        x = [rng.random() for _ in range(5)]
        w.writerow([f"{v:.4f}" for v in x] + [f"{sum(x):.4f}"])
    return buf.getvalue()


def read(text, size):
    batch = []
    for row in csv.reader(io.StringIO(text)):
        batch.append([float(v) for v in row])
        if len(batch) == size:
            t = torch.tensor(batch)
            yield t[:, :5], t[:, 5:]
            batch = []


class Meter:
    def __init__(self):
        self.sum = 0.0
        self.n = 0

    def add(self, loss, n):
        self.sum += loss * n
        self.n += n

    def mean(self):
        t = torch.tensor([self.sum, float(self.n)])
        dist.all_reduce(t)
        return (t[0] / t[1]).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)))
    opt = torch.optim.SGD(model.parameters(), 0.05)
    text = shard_csv(rank)
    for epoch in range(3):
        meter = Meter()
        for x, y in read(text, 32):  #: LINE
            loss = (model(x) - y).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.add(loss.item(), len(x))
        mean = meter.mean()
        if rank == 0:
            print(f"epoch {epoch} mse {mean:.4f}", flush=True)
    dist.destroy_process_group()


main()
