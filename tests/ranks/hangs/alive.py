"""Programs that look hung and are not. ``python alive.py NAME FOLDER SECONDS``."""

import ctypes
import importlib
import os
import queue
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from job import BAD_STEP, FOLDER, SECONDS, STEP_S, main, say, work
from transport import deafen


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


def last_upload(rank, world):
    """At the end a thread of rank 2, whose main thread has left, sends what it has; the others have left."""
    train(rank, lambda rank, i: None)
    if rank == 2:
        threading.Thread(target=upload).start()
        say("fault")
        sys.exit(0)


def upload():
    lines = queue.Queue()
    threading.Thread(target=lambda: (time.sleep(SECONDS), lines.put("sent")), daemon=True).start()
    lines.get()
    say("left")


def last_native(rank, world):
    """At the end rank 0 joins a thread that waits below Python, and keeps the interpreter meanwhile."""
    train(rank, lambda rank, i: None)
    if rank == 0:
        libc, thread = ctypes.PyDLL(None), ctypes.c_ulong()
        wait = ctypes.cast(libc.usleep, ctypes.c_void_p)
        libc.pthread_create(ctypes.byref(thread), None, wait, ctypes.c_void_p(int(SECONDS * 1e6)))
        say("fault")
        libc.pthread_join(thread, None)


def rank_logs(rank, world):
    """Rank 0 writes a line at every tenth step, which takes a little."""
    say("fault")

    def act(rank, i):
        if rank == 0 and i % 10 == 0:
            time.sleep(STEP_S * 0.1)

    steady(act)


def wandering(rank, world):
    """In every step another rank is late."""
    say("fault")

    def act(rank, i):
        if rank == i % world:
            time.sleep(STEP_S * 0.3)

    steady(act)


def all_slow(rank, world):
    """After a while every step takes longer, on all ranks alike."""
    say("fault")
    steady(lambda rank, i: time.sleep(STEP_S * 0.3 * (i > 40)))


def rare_pauses(rank, world):
    """One rank stands still for a second now and then, at no distance: a collection of garbage, a late batch."""
    say("fault")
    pauses = {7, 9, 31, 58, 60, 97, 140, 141, 199}
    steady(lambda rank, i: time.sleep(rank == 2 and i in pauses))


def steady(act):
    """Steps for SECONDS; rank 0 says when it is enough."""
    x, end, rank = torch.ones(64, 64), time.monotonic() + SECONDS, dist.get_rank()
    is_over, i = torch.zeros(1), 0
    while not is_over.item():
        work(x)
        act(rank, i)
        is_over.fill_(float(rank == 0 and time.monotonic() > end))
        dist.all_reduce(is_over)
        i += 1


def own_import(rank, world):
    """Rank 0 loads a module of the program that the others never need."""
    say("fault")
    steady(lambda rank, i: None)


def late_transfer(rank, world):
    """Nobody is told of the bytes of a call for a while; then everybody is."""

    def act(rank, i):
        if i == BAD_STEP:
            say("fault")
            deafen(1 << 20)
            threading.Timer(SECONDS, deafen, [1]).start()

    train(rank, act)


def burn(seconds):
    end = time.monotonic() + seconds
    x = torch.ones(64, 64)
    while time.monotonic() < end:
        x = torch.tanh(x @ x)
        time.sleep(0.002)


if __name__ == "__main__":
    if sys.argv[1] == "own_import" and os.environ["RANK"] == "0":
        (FOLDER / "only_here.py").write_text("LOG = True\n")
        sys.path.insert(0, str(FOLDER))
        importlib.import_module("only_here")
    main(globals())
