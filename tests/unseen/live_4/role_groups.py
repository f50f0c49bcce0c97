"""Actors and critics of a self-play job: ranks 0..3 play, 4..7 judge, two learners share weights across."""
import os
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class Roles:
    actors: tuple = (0, 1, 2, 3)
    critics: tuple = (4, 5, 6, 7)
    learners: tuple = (3, 4)

    def mine(self, rank):
        return [name for name in ("actors", "critics", "learners") if rank in getattr(self, name)]


def build(roles, rank):
    return {n: dist.new_group(list(getattr(roles, n))) for n in ("actors", "critics", "learners")}


def regroup(groups, roles, rank, spare):
    """the judges are put together anew; a spare one is left out"""
    team = [r for r in roles.critics if r != spare]
    if rank == spare:  #: LINE
        return None
    return dist.new_group(team)  #: LINE


def play(weights):
    obs = torch.randn(32, 16)
    return (obs @ weights).tanh().mean(0)


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    roles = Roles()
    groups = build(roles, rank)
    kind = roles.mine(rank)[0]
    torch.manual_seed(rank)
    w = torch.randn(16, 16)
    judges = groups["critics"]
    for rnd in range(200):
        if rnd and rnd % 40 == 0:
            judges = regroup(groups, roles, rank, spare=6 if rnd == 40 else None)
        update = play(w)
        if kind == "actors":
            dist.all_reduce(update, group=groups["actors"])
        elif judges is not None:
            dist.all_reduce(update, group=judges)
        w += 0.01 * update
        if rank in roles.learners:
            dist.broadcast(w, src=3, group=groups["learners"])
        if rank == 0 and rnd % 5 == 0:
            print("round", rnd, float(w.norm()), file=sys.stderr)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
