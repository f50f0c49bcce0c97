import datetime
import os
import tempfile
import time
from statistics import mean, median

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Journal:
    def __init__(self, path):
        self.file = open(path, "w")
        self.level = None

    def write(self, step, loss, batch):
        value = loss.item()
        self.level = value if self.level is None else 0.9 * self.level + 0.1 * value
        self.file.write(f"{datetime.datetime.now():%H:%M:%S} step {step} loss {value:.4f} mean {self.level:.4f} gust {batch.max():.2f}\n")
        self.file.flush()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(rank + 1)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(os.path.join(folder, "journal.txt")) if rank == 0 else None
        marks = [time.perf_counter()]
        for step in range(62):
            x = torch.randn(6, 4, 64, 64, generator=g)
            y = x.mean(1, keepdim=True).tanh()
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0:
                journal.write(step, loss, x)
            marks.append(time.perf_counter())
        if rank == 0:
            journal.file.close()
            ms = [1000 * (b - a) for a, b in zip(marks, marks[1:])][3:]
            print(f"{median(ms):.2f} ms/step median, {mean(ms):.2f} ms/step")
    del net, opt, loss
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
