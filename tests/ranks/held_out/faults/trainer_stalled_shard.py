#: n=4 ranks=1 cause=file_read tier=notice
import os
import random
import shutil
import struct
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

ROWS, COLS = 8, 12


class ShardCache:
    """Local copies of the shards; the newest ones are still being streamed in by the mount."""

    def __init__(self, root, count, streaming):
        self.paths = []
        self.handles = []
        for i in range(count):
            path = os.path.join(root, f"part-{i:05d}.f32")
            if i in streaming:
                os.mkfifo(path)
                self.handles.append(os.open(path, os.O_RDWR))
            else:
                rng = random.Random(i)
                with open(path, "wb") as f:
                    for _ in range(ROWS * (COLS + 1)):
                        f.write(struct.pack("f", rng.gauss(0, 1)))
            self.paths.append(path)

    def rows(self, index, slow):
        with open(self.paths[index], "rb") as f:
            if slow:
                print("FREEZE", time.time(), flush=True)
            blob = f.read(4 * ROWS * (COLS + 1))  #: LINE
        flat = torch.frombuffer(bytearray(blob), dtype=torch.float32)
        return flat.view(ROWS, COLS + 1)


class TabularModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(COLS, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


class Trainer:
    def __init__(self, model, cache, streaming):
        self.model = DistributedDataParallel(model)
        self.cache, self.streaming = cache, streaming
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=80)

    def get_train_batch(self, index):
        time.sleep(0.15)
        rows = self.cache.rows(index, slow=index in self.streaming)
        return rows[:, :-1], rows[:, -1]

    def training_step(self, index):
        x, y = self.get_train_batch(index)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def train(self, steps):
        for i in range(steps):
            loss = self.training_step(i)
            if i % 10 == 0 and dist.get_rank() == 0:
                print({"step": i, "loss": round(loss.item(), 4), "lr": self.scheduler.get_last_lr()[0]}, flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    root = tempfile.mkdtemp()
    late = random.Random(6021).randint(17, 29)
    streaming = {late} if rank == 1 else set()
    try:
        torch.manual_seed(44)
        Trainer(TabularModel(), ShardCache(root, 80, streaming), streaming).train(80)
        dist.barrier()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
