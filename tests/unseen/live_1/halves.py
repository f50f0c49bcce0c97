"""Two disjoint teams work with different numbers of steps, then meet."""
import time

import torch
import torch.distributed as dist


class Team:
    def __init__(self, name, ranks, steps):
        self.name, self.ranks, self.steps = name, ranks, steps
        self.group = dist.new_group(ranks)

    def __contains__(self, rank):
        return rank in self.ranks


class Generator_(torch.nn.Linear):
    pass


class Critic(torch.nn.Linear):
    pass


def optimise(module, team, pause):
    opt = torch.optim.SGD(module.parameters(), 0.01)
    for s in range(team.steps):
        loss = module(torch.randn(8, 10)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in module.parameters():
            dist.all_reduce(p.grad, group=team.group)
        opt.step()
        time.sleep(pause)
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gen = Team("generator", [0, 2, 4], 5)
    crit = Team("critic", [1, 3, 5], 60)
    for rnd in range(3):
        if rank in gen:
            loss = optimise(Generator_(10, 10), gen, 0.02)
        else:
            loss = optimise(Critic(10, 1), crit, 0.1)
        both = torch.zeros(6)
        both[rank] = loss
        dist.all_reduce(both)
        if rank == 5:
            print("round", rnd, both.tolist(), flush=True)
    dist.destroy_process_group()


main()
