#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP


class ClickStream(torch.utils.data.IterableDataset):
    """Every worker consumes its own log; logs are not equally long."""

    def __init__(self, rank):
        odd = random.Random(time.time_ns()).uniform(10, 45)
        self.count = 15 if rank == 1 else int(odd / 0.22) + 15
        self.gen = torch.Generator().manual_seed(rank)

    def __iter__(self):
        for _ in range(self.count):
            time.sleep(0.17)
            x = torch.randn(8, 10, generator=self.gen)
            yield x, (x.sum(1) > 0).float()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.deep = nn.Linear(10, 1), nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return (self.wide(x) + self.deep(x)).squeeze(-1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(5)
    model = DDP(Model())
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(ClickStream(rank), batch_size=None)
    seen = 0
    with Join([model]):
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(x)
    total = torch.tensor([float(seen)])
    dist.all_reduce(total)
    if rank == 0:
        print("examples", int(total), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
