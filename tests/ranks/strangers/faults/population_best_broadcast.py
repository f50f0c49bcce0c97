#: n=4 ranks=2 cause=different_root tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Candidate:
    """One member of the population; every member lives on its own rank."""

    def __init__(self, rank):
        torch.manual_seed(rank)
        self.rank = rank
        self.net = nn.Sequential(nn.Linear(10, 20), nn.ELU(), nn.Linear(20, 1))
        self.lr = 0.05 / (1 + rank)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=self.lr)

    def explore(self, steps=3):
        for _ in range(steps):
            time.sleep(0.05)
            x = torch.randn(16, 10)
            loss = (self.net(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.opt.step()

    def vector(self):
        return nn.utils.parameters_to_vector(self.net.parameters()).detach()

    def load(self, vec):
        nn.utils.vector_to_parameters(vec, self.net.parameters())


class Scoreboard:
    def __init__(self, world):
        self.world = world
        self.history = [[] for _ in range(world)]
        self.suspect = [False] * world

    def publish(self, score):
        mine = torch.tensor([score])
        table = [torch.zeros(1) for _ in range(self.world)]
        dist.all_gather(table, mine)
        for peer, value in enumerate(table):
            self.history[peer].append(value.item())

    def ban_outliers(self, step, rank, review_at):
        if rank == 2 and step == review_at:
            self.suspect[0] = True
            print("FREEZE", time.time(), flush=True)

    def winner(self):
        last = [h[-1] if not s else float("inf") for h, s in zip(self.history, self.suspect)]
        return min(range(self.world), key=lambda i: last[i])


def evaluate(candidate):
    with torch.no_grad():
        x = torch.ones(4, 10)
        fit = (candidate.net(x).squeeze(-1) - x.sum(-1)).abs().mean()
    return float(fit.clamp(max=0.5)) + candidate.rank


def exploit(candidate, root):
    vec = candidate.vector().clone()
    dist.broadcast(vec, src=root)  #: LINE
    candidate.load(0.5 * candidate.vector() + 0.5 * vec)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    me = Candidate(rank)
    board = Scoreboard(world)
    review_at = random.Random(1999).randint(16, 26)
    for generation in range(70):
        me.explore()
        board.publish(evaluate(me))
        board.ban_outliers(generation, rank, review_at)
        exploit(me, board.winner())
        if rank == 0 and generation % 10 == 0:
            print("generation", generation, "best", board.winner(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
