"""Programs of which one rank does something of its own instead of the next call. ``python host.py NAME FOLDER``."""

import gc
import os
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from job import BAD_STEP, FOLDER, main, say, work


def sleep(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 1 and i == BAD_STEP:
            say("fault")
            time.sleep(3600)
        dist.all_reduce(x)


def lock(rank, world):
    x, guard = torch.ones(64, 64), threading.Lock()
    if rank == 3:
        guard.acquire()
    for i in range(100):
        work(x)
        if i == BAD_STEP:
            say("fault")
            with guard:
                x.add_(0)
        dist.all_reduce(x)


def cpu_loop(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 2 and i == BAD_STEP:
            say("fault")
            pack(x)
        dist.all_reduce(x)


def pack(x):
    n = 0
    while True:
        n = (n * 31 + 7) % 1000003


def collect(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 0 and i == BAD_STEP:
            say("fault")
            while True:
                gc.collect()
        dist.all_reduce(x)


def file_read(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 2 and i == BAD_STEP:
            os.mkfifo(FOLDER / "fifo")
            say("fault")
            with open(FOLDER / "fifo", "rb") as file:  # noqa: PTH123 (a plain open keeps the stack here)
                file.read()
        dist.all_reduce(x)


def child(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 0 and i == BAD_STEP:
            say("fault")
            subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
        dist.all_reduce(x)


def store_wait(rank, world):
    x, store = torch.ones(64, 64), dist.distributed_c10d._get_default_store()
    for i in range(100):
        work(x)
        if rank == 3 and i == BAD_STEP:
            say("fault")
            store.get("a-key-that-nobody-sets")
        dist.all_reduce(x)


def checkpoint_io(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if i == BAD_STEP and rank == 0:
            os.mkfifo(FOLDER / "checkpoint.pt")
            say("fault")
            save_checkpoint({"x": x})
        dist.all_reduce(x)


def save_checkpoint(state):
    with open(FOLDER / "checkpoint.pt", "wb") as file:  # noqa: PTH123 (a plain open keeps the stack here)
        torch.save(state, file)


def compiling(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if i == BAD_STEP and rank == 1:
            say("fault")
            torch.compile(lambda a: a * 2 + 1, backend=slow_backend)(x)
        dist.all_reduce(x)


def slow_backend(graph, inputs):
    time.sleep(3600)
    return graph.forward


if __name__ == "__main__":
    main(globals())
