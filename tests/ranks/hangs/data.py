"""Programs that wait for their data. ``python data.py NAME FOLDER``."""

import os
import signal
import threading

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work


class Samples(torch.utils.data.Dataset):
    def __init__(self, bad_index, act):
        self.bad_index, self.act = bad_index, act

    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index == self.bad_index:
            say("fault")
            self.act()
        return torch.ones(64, 64)


def wait_for_ever():
    threading.Event().wait()


def stop_here():
    os.kill(os.getpid(), signal.SIGSTOP)


def train(rank, dataset):
    loader = torch.utils.data.DataLoader(dataset, batch_size=1, num_workers=1)
    for x in loader:
        work(x[0])
        dist.all_reduce(x)


def dataloader_worker(rank, world):
    train(rank, Samples(BAD_STEP + 2 if rank == 2 else None, wait_for_ever))


def stopped_worker(rank, world):
    train(rank, Samples(BAD_STEP + 2 if rank == 1 else None, stop_here))


def uneven_loader(rank, world):
    dataset = torch.utils.data.TensorDataset(torch.ones(8 if rank == 3 else 12, 64, 64))
    for (x,) in torch.utils.data.DataLoader(dataset, batch_size=1):
        work(x[0])
        dist.all_reduce(x)
    say("fault")
    dist.barrier()


if __name__ == "__main__":
    main(globals())
