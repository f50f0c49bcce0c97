"""Rank 0 coordinates and keeps statistics, the other ranks train together."""
import os
from functools import partial

import torch
import torch.nn as nn
from torch.distributed import (
    ReduceOp,
    all_reduce,
    broadcast,
    destroy_process_group,
    get_rank,
    get_world_size,
    init_process_group,
    new_group,
    recv,
    send,
)

STEPS = int(os.getenv("STEPS", "6"))


def coordinate(world, bridge):
    table = torch.zeros(STEPS, 2)
    for step in range(STEPS):
        broadcast(table[step], src=1, group=bridge)
    order = table[:, 0].argsort()
    best = int(order[0])
    print(f"best step {best} of {STEPS}: loss {table[best, 0]:.4f} with {int(table[best, 1])} rows", flush=True)
    for worker in range(1, world):
        send(torch.tensor([best]), dst=worker)


def worker(rank, group, bridge, members):
    mean = partial(all_reduce, op=ReduceOp.SUM, group=group)
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(3, 9), nn.ELU(), nn.Linear(9, 2))
    opt = torch.optim.RMSprop(model.parameters(), lr=0.01)
    g = torch.Generator().manual_seed(100 * rank)
    for _ in range(STEPS):
        x = torch.randn(12, 3, generator=g)
        y = (x.sum(1) > 0).long()
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            mean(p.grad)
            p.grad.div_(len(members))
        opt.step()
        note = torch.tensor([loss.item(), float(len(x))])
        mean(note)
        if rank == members[0]:
            note[0] /= len(members)
            broadcast(note, src=rank, group=bridge)
    best = torch.empty(1, dtype=torch.int64)
    recv(best, src=0)
    return int(best)


def main():
    init_process_group("gloo")
    rank, world = get_rank(), get_world_size()
    members = list(range(1, world))
    group = new_group(members) if rank in members else None
    bridge = new_group([0, members[0]])
    if rank == 0:
        coordinate(world, bridge)
    else:
        best = worker(rank, group, bridge, members)
        print(f"worker {rank} knows step {best}", flush=True)
    destroy_process_group()


if __name__ == "__main__":
    main()
