"""Programs that go on, and wait for one of their ranks all the time. ``python slow.py NAME FOLDER SECONDS``."""

import time

import torch
import torch.distributed as dist
from job import STEP_S, main, say, work

NUM_STEPS = 150
EVERY = 5
CHANGE = 30


def slow_rank(rank, world):
    """One rank's part of a step takes a twentieth longer."""
    x = torch.ones(64, 64)
    say("fault")
    for _ in range(NUM_STEPS):
        work(x)
        if rank == 2:
            time.sleep(STEP_S * 0.05)
        dist.all_reduce(x)


def became_slow(rank, world):
    """One rank's part of a step takes a fifth longer from step CHANGE on."""
    x = torch.ones(64, 64)
    for step in range(NUM_STEPS):
        if step == CHANGE:
            say("fault")
        work(x)
        if rank == 2 and step >= CHANGE:
            time.sleep(STEP_S * 0.2)
        dist.all_reduce(x)


def slow_periodic(rank, world):
    """One rank does something of its own in every fifth step."""
    x = torch.ones(64, 64)
    say("fault")
    for i in range(NUM_STEPS):
        work(x)
        if rank == 1 and i % EVERY == 0:
            tell(x)
        dist.all_reduce(x)


def tell(x):
    time.sleep(STEP_S / 2)


def slow_loader(rank, world):
    """One rank's batches come late, each of them."""
    x, model = torch.ones(64, 64), torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = torch.utils.data.DataLoader(SlowSamples(rank == 3), batch_size=1, num_workers=0)
    say("fault")
    for batch in batches:
        work(x)
        model(batch[0]).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


class SlowSamples(torch.utils.data.Dataset):
    def __init__(self, is_slow):
        self.is_slow = is_slow

    def __len__(self):
        return NUM_STEPS

    def __getitem__(self, index):
        time.sleep(0.03 if self.is_slow else 0.005)
        return torch.ones(64, 64)


def slow_ddp(rank, world):
    """The same below DDP, whose calls no recorder in Python sees."""
    x, model = torch.ones(64, 64), torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    say("fault")
    for _ in range(NUM_STEPS):
        work(x)
        if rank == 0:
            time.sleep(STEP_S * 0.1)
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(globals())
