"""Local SGD: the averaging of the outer momentum overlaps with the next inner steps."""
import time

import torch
import torch.distributed as dist


class Outer:
    def __init__(self, dim, beta=0.9):
        self.m = torch.zeros(dim)
        self.beta = beta
        self.handle = None
        self.delta = None

    def start(self, delta):
        self.delta = delta.clone()
        self.handle = dist.all_reduce(self.delta, async_op=True)

    def apply(self, w):
        if self.delta is None:
            return w
        self.m = self.beta * self.m + self.delta / dist.get_world_size()  #: LINE
        self.delta = None
        return w + 0.5 * self.m


def inner(w, rank, rnd, steps):
    g = torch.Generator().manual_seed(rnd * 50 + rank)
    start = w.clone()
    for _ in range(steps):
        x = torch.randn(32, w.numel(), generator=g)
        err = x @ w - x.sum(1)
        w = w - 0.01 * (x.t() @ err) / 32
    if rank == 1:
        time.sleep(0.5)  # larger images on this one
    return start, w


def spread(w):
    lo, hi = w.clone(), w.clone()
    dist.all_reduce(lo, op=dist.ReduceOp.MIN)
    dist.all_reduce(hi, op=dist.ReduceOp.MAX)
    return (hi - lo).abs().max().item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    w = torch.zeros(64)
    outer = Outer(64)
    for rnd in range(12):
        start, local = inner(w, rank, rnd, 5)
        outer.start(local - start)
        w = outer.apply(start)
        if rank == 0:
            print(f"round {rnd} |w-1| = {(w - 1).norm():.3f}", flush=True)
    gap = spread(w)
    print(f"rank {rank}: largest gap between the replicas {gap:.4f}", flush=True)
    dist.destroy_process_group()


main()
