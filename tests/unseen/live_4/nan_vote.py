"""FSDP2 with dynamic loss scaling by hand: a step is left out by all when one has an overflow."""
import random
import sys
import traceback

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Overflow(ArithmeticError):
    pass


class Scaler:
    def __init__(self):
        self.scale, self.good = 2.0**10, 0

    def check(self, params):
        for p in params:
            if not torch.isfinite(p.grad.to_local()).all():
                raise Overflow(f"gradient of {tuple(p.shape)} at scale {self.scale}")

    def agree(self, bad):
        flag = torch.tensor([int(bad)])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        if flag.item():
            self.scale, self.good = self.scale / 2, 0
            return False
        self.good += 1
        if self.good == 60:
            self.scale, self.good = self.scale * 4, 0
        return True


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(28, 56), nn.Softplus(), nn.Linear(56, 1))
    for part in (net[0], net[2], net):
        fully_shard(part)
    opt, scaler, rng = torch.optim.SGD(net.parameters(), lr=1e-2), Scaler(), random.Random(rank)
    skipped = 0
    for step in range(500):
        x = torch.randn(24, 28)
        loss = (net(x) - x[:, :1]).pow(2).mean()
        (loss * scaler.scale).backward()
        if rng.random() < 0.01:
            next(net.parameters()).grad.to_local().fill_(float("inf"))
        try:
            scaler.check(net.parameters())
            bad = False
        except Overflow:
            traceback.print_exc(limit=1, file=sys.stdout)
            bad = True
        if scaler.agree(bad):
            for p in net.parameters():
                p.grad.div_(scaler.scale)
            opt.step()
        else:
            skipped += 1
        opt.zero_grad()
    print(f"rank {rank}: {skipped} steps left out, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


main()
