"""Programs that look hung and are not. ``python alive.py NAME FOLDER SECONDS``."""

import os
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


def burn(seconds):
    end = time.monotonic() + seconds
    x = torch.ones(64, 64)
    while time.monotonic() < end:
        x = torch.tanh(x @ x)
        time.sleep(0.002)


if __name__ == "__main__":
    main(globals())
