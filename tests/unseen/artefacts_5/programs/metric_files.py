"""DDP; rank 0 buffers its metrics and a thread writes them to a file."""
import os
import threading
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MetricFile:
    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.part = folder, 0
        self.rows = []
        self.rows_lock = threading.Lock()
        self.file_lock = threading.Lock()
        self.file = open(f"{folder}/metrics.0.csv", "w")
        threading.Thread(target=self.writer, name="metric-writer", daemon=True).start()

    def add(self, step, loss):
        with self.rows_lock:
            self.rows.append((step, loss))

    def writer(self):
        while True:
            with self.file_lock:
                time.sleep(0.05)
                with self.rows_lock:
                    rows, self.rows = self.rows, []
                for step, loss in rows:
                    self.file.write(f"{step},{loss}\n")
                self.file.flush()
                os.fsync(self.file.fileno())

    def rotate(self):
        with self.rows_lock:
            pending = len(self.rows)
            with self.file_lock:
                self.file.close()
                self.part += 1
                self.file = open(f"{self.folder}/metrics.{self.part}.csv", "w")
        return pending


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    ddp = DDP(nn.Sequential(nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 1)))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.01)
    metrics = MetricFile("metrics") if rank == 0 else None
    for step in range(1, 2001):
        x = torch.randn(32, 30)
        loss = (ddp(x) - x.sum(1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if metrics:
            metrics.add(step, loss.item())
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
                metrics.rotate()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
