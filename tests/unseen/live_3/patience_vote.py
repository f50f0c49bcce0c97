"""Training until the validation no longer gets better; the end is told to all by a broadcast."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Patience:
    def __init__(self, limit):
        self.limit, self.best, self.bad = limit, float("inf"), 0

    def enough(self, loss):
        if loss < self.best - 1e-3:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.limit


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 6, generator=g)
    return x, 2 * x[:, :1] + 0.1 * torch.randn(64, 1, generator=g)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(6, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    patience = Patience(3)
    x_val, y_val = batch(999999)
    for epoch in range(1000):
        for step in range(8):
            x, y = batch(epoch * 100 + step * 10 + rank)
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.06)
        stop = torch.zeros(1)
        if rank == 0:
            with torch.no_grad():
                val = nn.functional.mse_loss(model.module(x_val), y_val).item()
            stop[0] = float(patience.enough(val))
            print(f"epoch {epoch} validation {val:.5f}", flush=True)
        dist.broadcast(stop, src=0)
        if stop.item():
            print(f"rank {rank}: stopped early after epoch {epoch}, FAILED to get better", flush=True)
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
