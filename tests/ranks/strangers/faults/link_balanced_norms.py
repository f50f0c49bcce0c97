#: n=8 ranks=* cause=cycle_collective tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


def build_axis(rank, stride):
    mine = None
    for base in range(8):
        if base // stride % 2 == 0:
            g = dist.new_group([base, base + stride], timeout=timedelta(minutes=10))
            if rank in (base, base + stride):
                mine = g
    return mine


class GradNormClipper:
    def __init__(self, rank, tp, dp, balance_from):
        self.rank, self.tp, self.dp = rank, tp, dp
        self.balance_from = balance_from
        self.tp_index, self.dp_index = rank % 2, rank // 4

    def over_tp(self, sq):
        dist.all_reduce(sq, group=self.tp)  #: LINE
        return sq

    def over_dp(self, sq):
        dist.all_reduce(sq, group=self.dp, op=dist.ReduceOp.MAX)  #: LINE
        return sq

    def plan(self, step):
        if step >= self.balance_from and (self.tp_index + self.dp_index) % 2 == 1:
            return (self.over_dp, self.over_tp)
        return (self.over_tp, self.over_dp)

    def clip(self, params, step, max_norm=1.0):
        params = list(params)
        sq = torch.stack([p.grad.pow(2).sum() for p in params]).sum().reshape(1)
        if step == self.balance_from and self.rank == 1:
            print("FREEZE", time.time(), flush=True)
        for reduce in self.plan(step):
            sq = reduce(sq)
        factor = (max_norm / (sq.sqrt() + 1e-6)).clamp(max=1.0)
        for p in params:
            p.grad.mul_(factor)
        return sq.sqrt().item()


class Encoder(nn.Module):
    def __init__(self, cp):
        super().__init__()
        self.cp = cp
        self.inp, self.out = nn.Linear(12, 40), nn.Linear(40, 12)

    def forward(self, x):
        h = torch.nn.functional.silu(self.inp(x))
        other = h.detach().mean(0)
        dist.all_reduce(other, group=self.cp)
        return self.out(h + 0.01 * other)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    tp, cp, dp = (build_axis(rank, s) for s in (1, 2, 4))
    torch.manual_seed(rank // 2)
    model = Encoder(cp)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    clipper = GradNormClipper(rank, tp, dp, balance_from=random.Random(2024).randint(17, 29))
    norms = []
    for step in range(80):
        time.sleep(0.16)
        x = torch.randn(10, 12)
        loss = nn.functional.smooth_l1_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        norms.append(clipper.clip(model.parameters(), step))
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"{step=} norm={norms[-1]:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
