import functools
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def retry(times=3, wait=0.05, on=(OSError,)):
    def wrap(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            for attempt in range(times):
                try:
                    return fn(*args, **kwargs)
                except on as e:
                    if attempt == times - 1:
                        raise
                    print(f"{fn.__name__}: {e}, again", flush=True)
                    time.sleep(wait)
        return call
    return wrap


class ObjectStore:
    """Stands for a bucket in the cloud; one of its parts needs a second try."""

    def __init__(self, slow=("part-07",)):
        self.slow = set(slow)

    def read(self, name):
        if name in self.slow:
            self.slow.discard(name)
            raise OSError(f"timeout reading {name}")
        g = torch.Generator().manual_seed(int(name[-2:]))
        x = torch.randn(12, 4, generator=g)
        return x, x.sin().sum(1, keepdim=True)


class ShardReader:
    def __init__(self, store, parts):
        self.store, self.parts = store, parts
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def read(self, name):
        return self.store.read(name)

    def agree(self, round_number):
        """Tell each other what is read in this round; nobody reads a part twice."""
        mine = self.parts[round_number * self.world + self.rank]
        names = [None] * self.world
        dist.all_gather_object(names, mine)
        if len(set(names)) != len(names):
            raise ValueError(f"parts read twice: {names}")
        return mine

    @retry()
    def fetch(self, round_number):
        return self.read(self.agree(round_number))

    def __iter__(self):
        for round_number in range(len(self.parts) // self.world):
            yield self.fetch(round_number)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    reader = ShardReader(ObjectStore(), [f"part-{i:02d}" for i in range(14)])
    for number, (x, y) in enumerate(reader):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if os.environ["RANK"] == "0":
            print(f"round {number} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
