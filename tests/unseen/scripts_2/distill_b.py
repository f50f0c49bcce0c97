import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def mlp(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


class Teacher:
    """Follows the first student by a moving average."""

    def __init__(self, pair, momentum=0.9):
        self.net, self.pair, self.momentum = mlp(8), pair, momentum

    def iteration(self, x, refresh):
        with torch.no_grad():
            logits = self.net(x)
        dist.broadcast(logits, src=0)
        if refresh:
            for p in self.net.parameters():
                other = torch.zeros_like(p.data)
                dist.all_reduce(other, group=self.pair)
                p.data.mul_(self.momentum).add_(other, alpha=1 - self.momentum)
        stats = torch.zeros(2)
        dist.all_reduce(stats)
        return stats


class Student:
    def __init__(self, pair, leads):
        self.net, self.pair, self.leads = mlp(8), pair, leads
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def iteration(self, x, refresh):
        soft = torch.empty(x.size(0), 3)
        dist.broadcast(soft, src=0)
        loss = F.kl_div(self.net(x).log_softmax(-1), soft.softmax(-1), reduction="batchmean")
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if refresh and self.leads:
            for p in self.net.parameters():
                mine = p.data.clone()
                dist.all_reduce(mine, group=self.pair)
        stats = torch.tensor([loss.item(), 1.0])
        dist.all_reduce(stats)
        return stats


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--refresh", type=int, default=4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    pair = dist.new_group([0, 1])
    role = Teacher(pair) if rank == 0 else Student(pair, leads=rank == 1)

    g = torch.Generator().manual_seed(99)
    for step in range(1, args.steps + 1):
        x = torch.randn(20, 6, generator=g)
        stats = role.iteration(x, refresh=step % args.refresh == 0)
        if rank == 0:
            print(f"step {step}: kl {(stats[0] / stats[1]).item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
