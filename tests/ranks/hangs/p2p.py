"""Programs of sends, receives and bounded buffers. ``python p2p.py NAME FOLDER``."""

import queue
import threading

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work


def cycle_p2p(rank, world):
    x, y = torch.ones(64, 64), torch.empty(64, 64)
    left, right = (rank - 1) % world, (rank + 1) % world
    for i in range(100):
        work(x)
        if i == BAD_STEP:
            say("fault")
            dist.recv(y, src=left)
            dist.send(x, dst=right)
        elif rank % 2:
            dist.recv(y, src=left)
            dist.send(x, dst=right)
        else:
            dist.send(x, dst=right)
            dist.recv(y, src=left)


def unmatched_p2p(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 2 and i == BAD_STEP:
            say("fault")
            dist.recv(x, src=0)
        dist.all_reduce(x)


def pipeline_stage(rank, world):
    """The stages hand activations on; the second one waits for a condition that nobody sets."""
    x, ready = torch.ones(64, 64), threading.Event()
    for i in range(100):
        if rank > 0:
            dist.recv(x, src=rank - 1)
        work(x)
        if rank == 1 and i == BAD_STEP:
            say("fault")
            ready.wait()
        if rank < world - 1:
            dist.send(x, dst=rank + 1)


def cycle_credit(rank, world):
    """Each rank hands its batches to a thread through a queue of one; the threads wait for each other's ranks."""
    peer = rank ^ 1
    jobs = queue.Queue(maxsize=1)
    x = torch.ones(64, 64)

    def serve():
        y = torch.empty(64, 64)
        while True:
            job = jobs.get()
            if job is None:
                dist.recv(y, src=peer, tag=7)
            jobs.task_done()

    threading.Thread(target=serve, daemon=True).start()
    for i in range(100):
        work(x)
        dist.all_reduce(x)
        if i == BAD_STEP:
            say("fault")
            for _ in range(4):
                jobs.put(None)
            dist.send(x, dst=peer, tag=7)


if __name__ == "__main__":
    main(globals())
