#: n=3 ok set=2
"""Per-customer anomaly detector. Customers have different amounts of data, the
join context of DDP takes care of the ranks that run out first."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

WINDOWS = {0: 20, 1: 150, 2: 27}
LEN = 24


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(LEN, 6)
        self.up = nn.Linear(6, LEN)

    def forward(self, x):
        return self.up(torch.tanh(self.down(x)))


class Customer:
    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(rank)

    def __len__(self):
        return WINDOWS[self.rank]

    def windows(self):
        for i in range(len(self)):
            # the archive of the largest customer is also the slowest one
            time.sleep(0.2 if i < 30 else 0.28)
            t = torch.linspace(0, 6.28, LEN)
            phase = torch.rand(8, 1, generator=self.gen) * 6.28
            yield torch.sin(t + phase) + 0.05 * torch.randn(8, LEN, generator=self.gen)


def fit(model, customer, opt):
    losses = []
    with model.join():
        for batch in customer.windows():
            loss = nn.functional.mse_loss(model(batch), batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            if len(losses) % 10 == 0:
                print(f"customer {customer.rank}: {len(losses)}/{len(customer)} "
                      f"loss {losses[-1]:.4f}", flush=True)
        if customer.rank == 0:
            print("FREEZE", time.time(), flush=True)
    return sum(losses) / len(losses)


@torch.no_grad()
def threshold(model, customer):
    errors = []
    for _ in range(5):
        time.sleep(0.05)
        x = torch.randn(8, LEN, generator=customer.gen)
        errors.append((model.module(x) - x).pow(2).mean().item())
    return sorted(errors)[-2]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    model = DistributedDataParallel(AutoEncoder())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    customer = Customer(rank)

    mean_loss = fit(model, customer, opt)

    rows = [None] * world
    dist.all_gather_object(rows, (rank, mean_loss, threshold(model, customer)))
    if rank == 0:
        for r, loss, limit in rows:
            print(f"customer {r}: mean loss {loss:.4f}, alarm above {limit:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
