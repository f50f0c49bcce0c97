"""A rank that is a child of multiprocessing, as with torch's spawn, and raises: Python's hooks see nothing of it."""

import multiprocessing
import sys


def rank(folder):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    dist.all_reduce(torch.ones(1))
    {"lr": 1.0}["rate"]  # raised


if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=rank, args=(sys.argv[1],))
    child.start()
    child.join()
    sys.exit(child.exitcode)
