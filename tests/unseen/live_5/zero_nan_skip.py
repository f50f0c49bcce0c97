"""DDP with a ZeroRedundancyOptimizer: regression on sensor windows, with a guard against bad losses."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 600
BATCH = 32


class Windows:
    """Sixteen channels, 64 samples each; a few windows have a dead sensor that reports inf."""

    def __init__(self, rank):
        self.g = torch.Generator().manual_seed(100 + rank)
        self.rank = rank

    def batch(self, step):
        x = torch.randn(BATCH, 16, 64, generator=self.g).cumsum(-1)
        y = x.mean(-1) @ torch.ones(16, 4) / 16
        if self.rank == 1 and step == 137:
            x[5, 3, 20:] = float("inf")
        return x, y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(16, 48, 5, padding=2), nn.ReLU(), nn.Conv1d(48, 48, 5, stride=2, padding=2), nn.ReLU())
        self.out = nn.Sequential(nn.Flatten(), nn.Linear(48 * 32, 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, x):
        return self.out(self.conv(x))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    net = Net()
    model = DDP(net)
    opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    data = Windows(rank)
    bad = 0
    for step in range(STEPS):
        x, y = data.batch(step)
        pred = model(x)
        loss = nn.functional.huber_loss(pred, y)
        loss.backward()
        if not torch.isfinite(loss):
            bad += 1
            print(f"rank {rank} step {step}: loss is {loss.item()}, update left out", flush=True)
            opt.zero_grad()
            continue  #: LINE
        for p in model.parameters():
            p.grad.nan_to_num_(0.0, 0.0, 0.0)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        if step % 100 == 99:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item() / world:.4f}", flush=True)
    if rank == 0:
        print("done, bad steps", bad)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
