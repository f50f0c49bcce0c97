import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scores import class_accuracy

CLASSES = 26


class Gestures(nn.Module):
    def __init__(self, c=80):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(9, c, 7, padding=3), nn.ReLU(), nn.Conv1d(c, c, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(c, 2 * c, 5, padding=2), nn.ReLU(), nn.Conv1d(2 * c, 2 * c, 3, padding=1), nn.ReLU(),
        )
        self.out = nn.Linear(2 * c, CLASSES)

    def forward(self, x):
        return self.out(self.conv(x).mean(-1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Gestures())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(10 + rank)
    x = torch.randn(300, 9, 96, generator=g)
    y = torch.randint(CLASSES, (300,), generator=g)
    times = []
    for step in range(62):
        begin = time.perf_counter()
        i = torch.randint(len(x), (32,), generator=g)
        out = model(x[i])
        loss = nn.functional.cross_entropy(out, y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        accuracy = class_accuracy(out.argmax(1), y[i], CLASSES)
        times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        times = times[3:]
        print(f"worst class {min(accuracy.values()):.2f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
