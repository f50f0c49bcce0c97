"""Long DDP training on random data."""
import frdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def batch(g):
    x = torch.randn(64, 128, generator=g)
    return x, x.roll(1, 1)


def train(ddp, opt, g, rank, steps):
    for step in range(steps):
        x, y = batch(g)
        loss = nn.functional.mse_loss(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    ddp = DDP(nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    train(ddp, opt, torch.Generator().manual_seed(rank), rank, 200000)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
