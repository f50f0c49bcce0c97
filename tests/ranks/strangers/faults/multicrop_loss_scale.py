#: n=4 ranks=3 cause=extra_collective tier=error set=3
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP


def crops(rank, total):
    gen = torch.Generator().manual_seed(900 + rank)
    for k in range(total):
        time.sleep(0.14)
        img = torch.rand(4, 3, 8, 8, generator=gen)
        if rank == 3 and k == 21:
            img = img * 3e6          # broken exposure metadata
        yield img, img.flatten(1).roll(1, dims=1)[:, :16].clamp(0, 1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 64, 16)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


class DynamicScale:
    """Halves the loss scale upon overflow, doubles it after a quiet period."""

    def __init__(self, value=256.0, limit=1e9, patience=15):
        self.value, self.limit, self.patience = value, limit, patience
        self.quiet = 0

    def inspect(self, raw_loss):
        if raw_loss * self.value > self.limit:
            self._shrink()
        else:
            self.quiet += 1
            if self.quiet >= self.patience:
                self.quiet = 0

    def _shrink(self):
        self.value = max(1.0, self.value / 2)
        self.quiet = 0
        print(f"overflow, new scale {self.value}")
        print("FREEZE", time.time(), flush=True)
        # let everyone take over the new scale before grads are computed
        dist.barrier()  #: LINE


def fit(rank):
    torch.manual_seed(1)
    net = DDP(Encoder())
    net.register_comm_hook(state=dist.group.WORLD, hook=default_hooks.allreduce_hook)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4)
    scale = DynamicScale()
    for k, (img, target) in enumerate(crops(rank, 70)):
        loss = nn.functional.mse_loss(net(img), target)
        scale.inspect(loss.item())
        opt.zero_grad()
        (loss * scale.value).backward()
        for p in net.parameters():
            p.grad.div_(scale.value)
        opt.step()
        if rank == 0 and k % 10 == 0:
            print(f"it {k} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    fit(dist.get_rank())
    dist.destroy_process_group()
