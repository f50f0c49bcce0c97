"""A classifier on two ranks (DDP) with averaged meters."""
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from kernels import Middle
from meters import Meters

STEPS = 60


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out = nn.Linear(64, 96), nn.Linear(96, 4)

    def forward(self, x):
        return self.out(Middle.apply(torch.relu(self.inp(x))))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    meters = Meters()
    generator = torch.Generator().manual_seed(rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(64, 64, generator=generator)
        y = x[:, :4].argmax(1)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters.update(loss, (logits.argmax(1) == y).float().mean(), len(x))
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"loss, accuracy, rows {(meters.totals / STEPS).tolist()}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
