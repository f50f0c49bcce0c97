import csv
import io
import logging
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

log = logging.getLogger("ledger")
FIELDS = ["account", "amount", "fee", "days", "late"]


def ledger(n=160):
    """The table as the bank exports it; some cells are left blank."""
    g = torch.Generator().manual_seed(31)
    values = torch.rand(n, 3, generator=g)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(FIELDS)
    for i, (amount, fee, days) in enumerate(values.tolist()):
        fee_cell = "" if i == 134 else f"{fee:.4f}"
        writer.writerow([f"A{i:03d}", f"{amount:.4f}", fee_cell, f"{days:.4f}", int(amount + days > 1)])
    out.seek(0)
    return list(csv.DictReader(out))


def number(cell, default=0.0):
    return float(cell) if cell else default


def encode(rows):
    x = torch.tensor([[number(r["amount"]), number(r["fee"]), number(r["days"])] for r in rows])
    y = torch.tensor([[number(r["late"])] for r in rows])
    return x, y


class Loader:
    def __init__(self, rows, batch, rank, world):
        per = len(rows) // world
        self.rows = rows[rank * per : (rank + 1) * per]
        self.batch = batch

    def __iter__(self):
        for at in range(0, len(self.rows), self.batch):
            yield encode(self.rows[at : at + self.batch])


def fit(model, loader, epochs=2):
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
        log.info("epoch %d loss %.4f", epoch, loss.item())


def main():
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(3, 6), nn.Sigmoid(), nn.Linear(6, 1)))
    fit(model, Loader(ledger(), 5, rank, world))
    norm = sum(p.detach().norm() for p in model.parameters())
    dist.all_reduce(norm, op=dist.ReduceOp.MAX)
    log.info("largest parameter norm %.4f", norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
