"""Programs of which one rank, or a thread of it, ends. ``python ends.py NAME FOLDER``."""

import ctypes
import os
import queue
import resource
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work


def stopped(rank, world):
    train(rank == 2, lambda: os.kill(os.getpid(), signal.SIGSTOP))


def killed(rank, world):
    train(rank == 1, lambda: os.kill(os.getpid(), signal.SIGKILL))


def segfault(rank, world):
    train(rank == 3, lambda: ctypes.string_at(0))


def exception(rank, world):
    train(rank == 0, bad_batch)


def bad_batch():
    raise ValueError("label 1001 of 1000")


def out_of_memory(rank, world):
    train(rank == 2, take_all)


def take_all():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    return bytearray(64 << 30)


def disk_full(rank, world):
    train(rank == 0, write_log)


def write_log():
    with open("/dev/full", "w") as file:  # noqa: PTH123 (as people write it)
        file.write("step done\n" * 10000)


def train(is_bad, act):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if is_bad and i == BAD_STEP:
            say("fault")
            act()
        dist.all_reduce(x)


def thread_died(rank, world):
    batches = queue.Queue(maxsize=2)

    def prefetch():
        for i in range(100):
            if rank == 1 and i == BAD_STEP:
                say("fault")
                raise RuntimeError("cannot decode image 6")
            batches.put(torch.ones(64, 64))

    threading.Thread(target=prefetch, daemon=True).start()
    for _ in range(100):
        x = batches.get()
        work(x)
        dist.all_reduce(x)


def main_exited(rank, world):
    x = torch.ones(64, 64)
    if rank == 2:
        threading.Thread(target=log_for_ever).start()
    for i in range(100):
        work(x)
        if rank == 2 and i == BAD_STEP:
            say("fault")
            sys.exit(0)
        dist.all_reduce(x)


def log_for_ever():
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(globals())
