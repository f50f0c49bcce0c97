#: n=4 ok exit=0
import os
import random
import shutil
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class FinalUpload(threading.Thread):
    """Keeps the process alive until the model has arrived."""

    def __init__(self, path, seconds):
        super().__init__(name="final-upload")
        self.path, self.seconds = path, seconds

    def run(self):
        end = time.time() + self.seconds
        while time.time() < end:
            with open(self.path, "rb") as f:
                f.read(4096)
            time.sleep(0.3)
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)


class GRUClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc = nn.GRU(6, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.fc(h[:, -1])


def train(model, steps):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        time.sleep(0.15)
        x, y = torch.randn(5, 7, 6), torch.randint(0, 3, (5,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(19)
    model = DDP(GRUClassifier())
    last = train(model, 40)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        path = os.path.join(tempfile.mkdtemp(), "final.pt")
        torch.save(model.module.state_dict(), path)
        FinalUpload(path, random.Random(time.time_ns()).uniform(10, 45)).start()
        print("loss", last, flush=True)


if __name__ == "__main__":
    main()
