#: n=4 ranks=3 cause=missing_group tier=error set=3
"""Experts regroup every few steps: the active ones form a group to share statistics."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

REGROUP = 8


class Load:
    """Token counts of each expert, smoothed."""

    def __init__(self, world):
        self.ema = torch.ones(world)

    def update(self, mine):
        counts = torch.zeros(dist.get_world_size())
        counts[dist.get_rank()] = mine
        dist.all_reduce(counts)
        self.ema.mul_(0.5).add_(counts, alpha=0.5)

    def active(self):
        return [r for r, v in enumerate(self.ema.tolist()) if v > 0.2]


class ExpertTeam:
    def __init__(self, rank):
        self.rank = rank
        self.group = None
        self.generation = 0

    def regroup(self, members, queued):
        if queued == 0:  #: LINE
            # nothing to do for this expert right now, it need not be in the team
            print("FREEZE", time.time(), flush=True)
            self.group = None
            return
        self.group = dist.new_group(members)
        self.generation += 1

    def share(self, t):
        if self.group is not None:
            dist.all_reduce(t, group=self.group)
        return t


def route(rank, step, gen):
    time.sleep(0.15)
    n = 0 if (rank == 3 and step == 24) else int(torch.randint(3, 6, (1,), generator=gen))
    return torch.randn(n, 6, generator=gen)


def reduce_grads(model):
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)  #: LINE
    return flat.norm().item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(1)
    expert = nn.Linear(6, 6)
    opt = torch.optim.SGD(expert.parameters(), lr=0.01)
    gen = torch.Generator().manual_seed(rank)
    load, team = Load(dist.get_world_size()), ExpertTeam(rank)
    for step in range(70):
        tokens = route(rank, step, gen)
        load.update(float(len(tokens)))
        if step % REGROUP == 0:
            team.regroup(load.active(), len(tokens))
        loss = expert(tokens).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        norm = reduce_grads(expert)
        opt.step()
        team.share(loss.detach().clone())
        if rank == 0 and step % 4 == 0:
            print(f"{step} gen {team.generation} norm {norm:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
