import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from logbook import Logbook


class Queue(nn.Module):
    """How long a call has to wait, by those before it."""

    def __init__(self, traits=12, width=144):
        super().__init__()
        self.enter = nn.Linear(traits, width)
        self.net = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, calls):
        return self.out(self.net(self.enter(calls))[0][:, -1])[:, 0]


def main(steps=60, batch=64):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(Queue(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    calls = torch.rand(3000, 30, 12, generator=torch.Generator().manual_seed(rank))
    waited = calls[:, -5:, :2].sum((1, 2))
    logbook = Logbook(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 3000, (batch,))
        loss = F.l1_loss(net(calls[picked]), waited[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logbook.note(step, loss.detach())
        times.append(1e3 * (time.perf_counter() - began))
    logbook.close()
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
