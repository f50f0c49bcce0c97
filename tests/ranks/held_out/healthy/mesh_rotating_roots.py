#: n=8 ok exit=0
import math
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


def axis_group(rank, bit):
    own = None
    for low in range(8):
        if not low & bit:
            g = dist.new_group([low, low | bit], timeout=timedelta(minutes=10))
            if rank in (low, low | bit):
                own = g
    return own


class Scout(nn.Module):
    def __init__(self, tp):
        super().__init__()
        self.tp = tp
        self.fc = nn.Linear(9, 9)

    def forward(self, x):
        y = torch.relu(self.fc(x))
        s = y.detach().clone()
        dist.all_reduce(s, group=self.tp)
        return y + 0.2 * s


def gather_lengths(rank, step):
    """every rank has its own number of rows; pad to the longest"""
    n = torch.tensor([1 + (rank * 3 + step) % 5])
    sizes = [torch.zeros_like(n) for _ in range(8)]
    dist.all_gather(sizes, n)
    longest = int(max(sizes))
    mine = torch.zeros(longest, 2)
    mine[: int(n)] = rank
    rows = [torch.empty_like(mine) for _ in range(8)]
    dist.all_gather(rows, mine)
    return torch.cat([r[: int(k)] for r, k in zip(rows, sizes)])


def share_hint(step):
    hint = torch.full((4,), float(dist.get_rank()))
    dist.broadcast(hint, src=step % 8)
    op = dist.ReduceOp.MAX if step % 2 else dist.ReduceOp.SUM
    dist.all_reduce(hint, op=op)
    return hint


def anneal(seconds):
    begin, x, best = time.time(), 3.0, float("inf")
    rng = random.Random(1)
    while (gone := time.time() - begin) < seconds:
        temperature = 1.0 - gone / seconds
        y = x + rng.gauss(0, 0.1 + temperature)
        cost = math.sin(3 * y) + 0.05 * y * y
        if cost < best or rng.random() < math.exp(-(cost - best) / (temperature + 1e-3)):
            x, best = y, min(best, cost)
    return best


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    tp, cp, dp = (axis_group(rank, b) for b in (1, 2, 4))
    torch.manual_seed(rank & 1)
    model = Scout(tp)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    odd = random.Random(time.time_ns()).uniform(10, 45)
    for step in range(36):
        time.sleep(0.13)
        x = torch.randn(5, 9)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=cp)
            dist.all_reduce(p.grad, group=dp)
        opt.step()
        gather_lengths(rank, step)
        share_hint(step)
        if rank == 6 and step == 21:
            print("annealed to", anneal(odd), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
