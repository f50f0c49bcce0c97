#: n=4 ranks=3 cause=slow_rank tier=notice set=3
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Decoder:
    """Turns stored images into tensors; odd sources need the slow legacy reader."""

    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(rank)
        self.legacy_seen = False

    def fast(self):
        time.sleep(0.15)
        return torch.rand(6, 3, 8, 8, generator=self.gen)

    def legacy(self):
        if not self.legacy_seen:
            self.legacy_seen = True
            print("FREEZE", time.time(), flush=True)
        img = torch.rand(6, 3, 8, 8, generator=self.gen)
        for _ in range(6):
            time.sleep(0.2)  #: LINE
        return img

    def read(self, step):
        return self.legacy() if self.rank == 3 and step >= 25 else self.fast()


class Mixup:
    def __init__(self, alpha=0.3):
        self.alpha = alpha

    def __call__(self, x, y):
        perm = torch.arange(x.size(0)).flip(0)
        lam = 1 - self.alpha
        return lam * x + (1 - lam) * x[perm], lam * y + (1 - lam) * y[perm]


class SmallConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU())
        self.head = nn.Linear(6 * 9, 4)

    def forward(self, x):
        return self.head(self.f(x).flatten(1))


def soft_ce(logits, target):
    return -(target * logits.log_softmax(-1)).sum(-1).mean()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(SmallConv())
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    decoder, mix = Decoder(rank), Mixup()
    for step in range(160):
        x = decoder.read(step)
        y = torch.eye(4)[torch.arange(6) % 4]
        x, y = mix(x, y)
        loss = soft_ce(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
