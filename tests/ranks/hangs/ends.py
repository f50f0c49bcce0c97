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
from job import BAD_STEP, FOLDER, main, say, work


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


def no_end(rank, world):
    """At the end rank 0 joins a thread that needs the interpreter, and keeps it.

    So does torch 2.13 where a DDP model is freed after its group: ~ProcessGroupGloo joins its thread under the GIL,
    while that frees a work with a Python context.
    """
    few_steps()
    if rank == 0:
        libc, thread = ctypes.PyDLL(None), ctypes.c_ulong()
        needs = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: None)
        say("fault")
        sys.setswitchinterval(600)  # so that the thread does not get the interpreter between the two calls
        libc.pthread_create(ctypes.byref(thread), None, needs, None)
        libc.pthread_join(thread, None)


def forgotten_thread(rank, world):
    """A thread that is no daemon waits for a batch, and nobody is left to give one."""
    few_steps()
    if rank == 3:
        threading.Thread(target=write_metrics, args=(queue.Queue(),)).start()
        say("fault")
        sys.exit(0)


def write_metrics(lines):
    while (line := lines.get()) is not None:
        (FOLDER / "metrics").write_text(line)


def few_steps():
    x = torch.ones(64, 64)
    for _ in range(BAD_STEP):
        work(x)
        dist.all_reduce(x)


def log_for_ever():
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(globals())
