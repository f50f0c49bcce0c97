"""Gradient averaging that measures two ways of doing it and then keeps the faster one."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn


def by_all_reduce(flat):
    dist.all_reduce(flat)
    return flat


def by_gather(flat):
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, flat)
    return torch.stack(parts).sum(0)


class Tuner:
    """Alternates between the candidates for `trials` steps each, then settles."""

    def __init__(self, trials):
        self.ways = {"all_reduce": by_all_reduce, "gather": by_gather}
        self.seconds = {k: 0.0 for k in self.ways}
        self.left = trials * len(self.ways)
        self.chosen = None

    def __call__(self, flat, overhead):
        if self.chosen is None:
            name = list(self.ways)[self.left % len(self.ways)]
            self.left -= 1
            t0 = time.perf_counter()
            out = self.ways[name](flat)
            self.seconds[name] += time.perf_counter() - t0 + overhead.get(name, 0.0)
            if self.left == 0:
                self.chosen = min(self.seconds, key=self.seconds.get)  #: LINE
            return out
        return self.ways[self.chosen](flat)


def host_copy_cost(rank):
    # measured by the deployment scripts: pinned buffers are missing on host 1
    return {"all_reduce": 0.5} if rank == 1 else {"gather": 0.5}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--trials", type=int, default=8)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    tune = Tuner(args.trials)
    cost = host_copy_cost(rank)
    for step in range(args.steps):
        g = torch.Generator().manual_seed(step * world + rank)
        x = torch.randn(256, 256, generator=g)
        y = (x[:, :10]).argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        net.zero_grad()
        loss.backward()
        time.sleep(0.05)  # the reader is limited to 20 batches a second
        flat = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        flat = tune(flat, cost) / world
        at = 0
        for p in net.parameters():
            p.grad.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print("step", step, "loss", round(loss.item(), 4), "sync", tune.chosen, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
