"""Programs whose ranks call what does not meet. ``python calls.py NAME FOLDER``."""

import sys
import time

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work


def uneven_data(rank, world):
    x = torch.ones(64, 64)
    num_batches = BAD_STEP - 1 if rank == 1 else BAD_STEP + 4
    for _ in range(num_batches):
        work(x)
        dist.all_reduce(x)
    say("fault")
    dist.barrier()


def skipped_collective(rank, world):
    x, loss = torch.ones(64, 64), torch.zeros(3)
    for i in range(100):
        work(x)
        if rank == 2 and i == BAD_STEP:
            say("fault")
        else:
            dist.all_reduce(x)
        dist.all_gather_object([None] * world, float(loss[0]))


def extra_collective(rank, world):
    x, other = torch.ones(64, 64), dist.new_group(list(range(world)))
    for i in range(100):
        work(x)
        if rank == 0 and i == BAD_STEP:
            say("fault")
            dist.reduce(x, 0, group=other)
        dist.all_reduce(x)
        dist.all_reduce(x, group=other)


def different_op(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 3 and i == BAD_STEP:
            say("fault")
            dist.broadcast(x, src=3)
            dist.broadcast(x, src=0)
        else:
            dist.all_reduce(x)


def different_root(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        source = 0
        if rank == 2 and i == BAD_STEP:
            say("fault")
            source = 1
        dist.broadcast(x, src=source)
        dist.all_reduce(x)


def shape(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        y = x
        if rank == 1 and i == BAD_STEP:
            say("fault")
            y = torch.ones(63, 64)
        dist.all_reduce(y)


def dtype(rank, world):
    x = torch.ones(64, 64)
    for i in range(60):
        work(x)
        y = x
        if rank == 3 and i == BAD_STEP:
            say("fault")
            y = torch.ones(64, 64, dtype=torch.int32)
        dist.all_reduce(y)


def missing_group(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if i == BAD_STEP:
            if rank == 2:
                say("fault")
            else:
                dist.new_group(list(range(world)))
        dist.all_reduce(x)


def cycle_collective(rank, world):
    x, other = torch.ones(64, 64), dist.new_group(list(range(world)))
    for i in range(100):
        work(x)
        if i == BAD_STEP and rank % 2:
            say("fault")
            dist.all_reduce(x, group=other)
            dist.all_reduce(x)
        else:
            dist.all_reduce(x)
            dist.all_reduce(x, group=other)


def swallowed_exception(rank, world):
    x, other = torch.ones(64, 64), dist.new_group(list(range(world)))
    for i in range(100):
        work(x)
        try:
            if rank == 1 and i == BAD_STEP:
                say("fault")
                raise ValueError("a bad sample")
            dist.all_reduce(x, group=other)
        except ValueError as error:
            sys.stderr.write(f"skipping the batch: {error}\n")
        dist.all_reduce(x)


def healthy(rank, world):
    x = torch.ones(64, 64)
    end = time.monotonic() + 30
    while True:
        work(x)
        dist.all_reduce(x)
        stop = torch.tensor([float(time.monotonic() > end)])
        dist.all_reduce(stop)
        if stop.item():
            return


if __name__ == "__main__":
    main(globals())
