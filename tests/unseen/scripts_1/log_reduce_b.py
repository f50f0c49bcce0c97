# training loop with an averaged loss printed by rank zero every few steps
from datetime import timedelta
import sys
import torch, torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

LOG_EVERY = 3


class Meter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, v):
        self.total += v
        self.n += 1

    def pop(self):
        out = torch.tensor([self.total, float(self.n)])
        self.total, self.n = 0.0, 0
        return out


def report(meter, step, rank):
    pack = meter.pop()
    if rank == 0:
        dist.all_reduce(pack)
        sys.stdout.write(f"step {step} avg loss {pack[0] / pack[1]:.4f}\n")
    else:
        dist.reduce(pack, dst=0)


def data_stream(rank, steps):
    g = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(8, 3, generator=g)
        yield x, x.abs().sum(1, keepdim=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    meter = Meter()
    for step, (x, y) in enumerate(data_stream(rank, 9), 1):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        meter.add(loss.item())
        if step % LOG_EVERY == 0:
            report(meter, step, rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
