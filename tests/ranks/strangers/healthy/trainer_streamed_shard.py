#: n=4 ok exit=0
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

FETCHER = """
import sys, time
path, seconds, size = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
with open(path, "wb", buffering=0) as f:
    f.write(bytes(size // 2))
    time.sleep(seconds)
    f.write(bytes(size - size // 2))
time.sleep(200)
"""


class StreamedShard:
    """A shard that another process downloads while we read it."""

    def __init__(self, folder, seconds, rows=16, cols=8):
        self.path = os.path.join(folder, "next-shard.u8")
        self.rows, self.cols, self.seconds = rows, cols, seconds

    def read(self):
        os.mkfifo(self.path)
        size = self.rows * self.cols
        fetcher = subprocess.Popen([sys.executable, "-c", FETCHER, self.path, str(self.seconds), str(size)])
        with open(self.path, "rb") as f:
            blob = f.read(size)
        fetcher.kill()
        fetcher.wait()
        return torch.frombuffer(bytearray(blob), dtype=torch.uint8).view(self.rows, self.cols).float()


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Mish(), nn.Linear(16, 8))

    def forward(self, x):
        return self.net(x)


class Trainer:
    def __init__(self, rank, folder):
        self.rank = rank
        self.model = DistributedDataParallel(Probe())
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.shard = StreamedShard(folder, random.Random(time.time_ns()).uniform(10, 45))
        self.rows = torch.rand(16, 8)

    def train(self, steps):
        for step in range(steps):
            if step == 25 and self.rank == 2:
                self.rows = self.shard.read()
            time.sleep(0.15)
            x = self.rows[torch.randint(0, 16, (4,))]
            loss = (self.model(x) - x).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    folder = tempfile.mkdtemp()
    try:
        torch.manual_seed(23)
        Trainer(dist.get_rank(), folder).train(42)
        dist.barrier()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
