"""Two teams on disjoint groups: actors produce statistics, learners train."""
import collections
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

ROUNDS = 8


class Actor:
    def __init__(self, rank, group):
        self.rank, self.group = rank, group
        self.gen = torch.Generator().manual_seed(rank)

    def round(self, i):
        rewards = torch.randn(10, generator=self.gen)
        both = [torch.empty_like(rewards) for _ in range(2)]
        dist.all_gather(both, rewards, group=self.group)
        best = torch.stack(both).max().reshape(1)
        count = torch.tensor([10.0])
        dist.all_reduce(count, group=self.group)
        if self.rank == 0:
            print(f"actors  {i}: best {best.item():.3f} of {int(count)}")


class Learner:
    NEED = 12

    def __init__(self, rank, group):
        self.rank, self.group = rank, group
        self.gen = torch.Generator().manual_seed(rank)
        torch.manual_seed(5)
        self.net = nn.Linear(3, 1)
        self.buffer = collections.deque(maxlen=40)

    def collect(self):
        fresh = 4 if self.rank == 2 else 3
        for _ in range(fresh):
            self.buffer.append(torch.randn(3, generator=self.gen))

    def ready(self):
        flag = torch.tensor([int(len(self.buffer) >= self.NEED)])
        dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=self.group)
        return bool(flag.item())

    def round(self, i):
        self.collect()
        if not self.ready():
            return
        x = torch.stack(list(self.buffer)[-self.NEED:])
        loss = (self.net(x) - x.prod(1, keepdim=True)).pow(2).mean()
        self.net.zero_grad()
        loss.backward()
        for p in self.net.parameters():
            dist.all_reduce(p.grad, group=self.group)
            p.data.sub_(0.05 * p.grad)
        shown = [torch.empty(1) for _ in range(2)]
        dist.all_gather(shown, loss.detach().reshape(1), group=self.group)
        if self.rank == 2:
            print(f"learner {i}: losses {[round(s.item(), 3) for s in shown]}")


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    teams = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    worker = Actor(rank, teams[0]) if rank < 2 else Learner(rank, teams[1])
    for i in range(ROUNDS):
        worker.round(i)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
