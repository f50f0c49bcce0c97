"""Programs that look hung and are not. ``python alive.py NAME FOLDER SECONDS``."""

import os
import queue
import subprocess
import threading
import time

import torch
import torch.distributed as dist
from job import BAD_STEP, FOLDER, SECONDS, main, say, work


def train(rank, act):
    x = torch.ones(64, 64)
    for i in range(BAD_STEP + 12):
        work(x)
        act(rank, i)
        dist.all_reduce(x)


def slow_first_step(rank, world):
    def act(rank, i):
        if i == 0:
            say("fault")
            burn(SECONDS if rank == 1 else SECONDS / 2)

    train(rank, act)


def long_evaluation(rank, world):
    def act(rank, i):
        if i == BAD_STEP and rank == 0:
            say("fault")
            evaluate(torch.nn.Linear(64, 64).eval())

    train(rank, act)


@torch.no_grad()
def evaluate(model):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        model(torch.ones(512, 64))
        time.sleep(0.01)


def long_save(rank, world):
    def act(rank, i):
        if i == BAD_STEP and rank == 0:
            say("fault")
            save()

    train(rank, act)


def save():
    end = time.monotonic() + SECONDS
    with open(FOLDER / "checkpoint.pt", "wb") as file:  # noqa: PTH123 (as people write it)
        while time.monotonic() < end:
            file.seek(0)
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            time.sleep(0.05)


def slow_but_alive(rank, world):
    def act(rank, i):
        if i == BAD_STEP and rank == 2:
            say("fault")
            time.sleep(SECONDS)

    train(rank, act)


def slow_reader(rank, world):
    def act(rank, i):
        if i == BAD_STEP and rank == 3:
            say("fault")
            preprocess()

    train(rank, act)


def preprocess():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        sorted(os.urandom(1 << 16))


def slow_lock(rank, world):
    """A thread holds the lock for a while, and gives it back."""
    guard = threading.Lock()

    def hold():
        with guard:
            time.sleep(SECONDS)

    def act(rank, i):
        if i == BAD_STEP and rank == 1:
            say("fault")
            threading.Thread(target=hold, daemon=True).start()
            time.sleep(0.2)
            with guard:
                pass

    train(rank, act)


def slow_producer(rank, world):
    """The batches come from a thread, and one of them comes late."""
    batches = queue.Queue(maxsize=2)

    def produce():
        for i in range(BAD_STEP + 12):
            if rank == 2 and i == BAD_STEP:
                say("fault")
                time.sleep(SECONDS)
            batches.put(torch.ones(64, 64))

    threading.Thread(target=produce, daemon=True).start()
    train(rank, lambda rank, i: batches.get())


class SlowSample(torch.utils.data.Dataset):
    def __init__(self, is_slow):
        self.is_slow = is_slow

    def __len__(self):
        return BAD_STEP + 12

    def __getitem__(self, index):
        if self.is_slow and index == BAD_STEP:
            say("fault")
            time.sleep(SECONDS)
        return torch.ones(64, 64)


def slow_worker(rank, world):
    for x in torch.utils.data.DataLoader(SlowSample(rank == 3), batch_size=1, num_workers=1):
        work(x[0])
        dist.all_reduce(x)


def slow_child(rank, world):
    def act(rank, i):
        if i == BAD_STEP and rank == 0:
            say("fault")
            subprocess.run(["sleep", str(SECONDS)])

    train(rank, act)


def late_key(rank, world):
    """One rank sets the key that another waits for, after some work."""
    store = dist.distributed_c10d._get_default_store()

    def act(rank, i):
        if i == BAD_STEP and rank == 1:
            say("fault")
            store.wait(["the-key"])
        if i == BAD_STEP and rank == 0:
            time.sleep(SECONDS)
            store.set("the-key", "1")

    train(rank, act)


def late_group(rank, world):
    """One rank comes late to the creation of a group."""
    x = torch.ones(64, 64)
    for i in range(BAD_STEP + 6):
        work(x)
        if i == BAD_STEP:
            if rank == 2:
                say("fault")
                burn(SECONDS)
            dist.new_group(list(range(world)))
        dist.all_reduce(x)


def slow_stage(rank, world):
    """A pipeline of sends and receives, one stage of which takes long once."""
    x = torch.ones(64, 64)
    for i in range(BAD_STEP + 8):
        if rank > 0:
            dist.recv(x, src=rank - 1)
        work(x)
        if rank == 1 and i == BAD_STEP:
            say("fault")
            burn(SECONDS)
        if rank < world - 1:
            dist.send(x, dst=rank + 1)
    dist.barrier()


def slow_compile(rank, world):
    def act(rank, i):
        if i == BAD_STEP and rank == 1:
            say("fault")
            torch.compile(lambda a: a * 2 + 1, backend=slow_backend)(torch.ones(4))

    train(rank, act)


def slow_backend(graph, inputs):
    time.sleep(SECONDS)
    return graph.forward


def last_save(rank, world):
    """At the end rank 0 writes for a while, when the others have left."""
    train(rank, lambda rank, i: None)
    if rank == 0:
        say("fault")
        save()


def burn(seconds):
    end = time.monotonic() + seconds
    x = torch.ones(64, 64)
    while time.monotonic() < end:
        x = torch.tanh(x @ x)
        time.sleep(0.002)


if __name__ == "__main__":
    main(globals())
