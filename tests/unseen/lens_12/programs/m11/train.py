import csv
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Journal:
    def __init__(self, folder):
        self.file = open(os.path.join(folder, "journal.csv"), "w", newline="")
        self.rows = csv.writer(self.file)
        self.rows.writerow(["step", "loss", "rate"])

    def note(self, step, loss, rate):
        self.rows.writerow([step, f"{loss.item():.5f}", rate])
        self.file.flush()


def network():
    return nn.Sequential(
        nn.Conv2d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 8))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    fields, crop = torch.randn(240, 4, 36, 36), torch.randint(8, (240,))
    model = DDP(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 64)
    torch.manual_seed(rank)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder) if rank == 0 else None
        for step in range(64):
            begin = time.perf_counter()
            i = torch.randint(240, (8,))
            loss = nn.functional.cross_entropy(model(fields[i]), crop[i])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            plan.step()
            if journal is not None:
                journal.note(step, loss, plan.get_last_lr()[0])
            times.append((time.perf_counter() - begin) * 1000)
        if journal is not None:
            journal.file.close()
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


main()
