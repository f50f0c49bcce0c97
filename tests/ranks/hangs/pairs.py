"""Two ranks, of which none is the majority: what only their own earlier rounds tell."""

import multiprocessing

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work


def norm(x):
    total = x.abs().sum().reshape(1)
    say("fault")
    dist.all_reduce(total)  # only on rank 0
    return total


def one_norm(rank, world):
    """Rank 0 alone reduces a norm, of another size than what its peer reduces next: gloo aborts one of the two."""
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        dist.all_reduce(x)
        if rank == 0 and i == BAD_STEP:
            norm(x)


def other_tag(rank, world):
    """The ranks count the tags of their messages, and one miscounts."""
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        tag = i % 5
        if rank == 0:
            dist.send(x, dst=1, tag=tag)
        else:
            if i == BAD_STEP:
                say("fault")
                tag += 1
            dist.recv(x, src=0, tag=tag)


def both_in_a_transfer(rank, world):
    """A message of which both sides wait in a call that matches: rank 1 is slow to begin and then all goes on."""
    x = torch.ones(64, 64)
    for i in range(12):
        work(x)
        if i == BAD_STEP and rank == 1:
            say("fault")
            multiprocessing.Event().wait(7)
        if rank == 0:
            dist.send(x, dst=1, tag=i)
        else:
            dist.recv(x, src=0, tag=i)


if __name__ == "__main__":
    main(globals())
