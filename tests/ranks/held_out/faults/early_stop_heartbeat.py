#: n=4 ranks=3 cause=main_exited tier=error
import json
import os
import random
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Heartbeat(threading.Thread):
    """Tells the cluster dashboard that this worker is alive."""

    def __init__(self, folder, rank):
        super().__init__(name="heartbeat")
        self.path = os.path.join(folder, f"worker{rank}.json")
        self.done = threading.Event()

    def run(self):
        while not self.done.is_set():
            with open(self.path, "w") as f:
                json.dump({"time": time.time()}, f)
            time.sleep(0.5)  #: LINE


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def update(self, value):
        if value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(18, 4), nn.Linear(4, 18)

    def forward(self, x):
        return self.dec(torch.relu(self.enc(x)))


def average(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def validation_score(step, rank, plateau):
    noise = random.Random(step * 10 + rank).random() * 0.001
    if rank == 3 and step >= plateau:
        return 1.0 / plateau + noise
    return 1.0 / (step + 1) - step


def train(rank, plateau):
    torch.manual_seed(4)
    model = AutoEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    stopper = EarlyStopping(patience=3)
    for step in range(90):
        time.sleep(0.16)
        x = torch.randn(16, 18)
        loss = (model(x) - x).abs().mean()
        opt.zero_grad()
        loss.backward()
        average(model)
        opt.step()
        if stopper.update(validation_score(step, rank, plateau)):
            print("FREEZE", time.time(), flush=True)
            return model  #: LINE
    dist.barrier()
    return model


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    beat = Heartbeat(tempfile.mkdtemp(), rank)
    beat.start()
    model = train(rank, plateau=random.Random(77).randint(14, 24))
    print(f"rank {rank} trained {sum(p.numel() for p in model.parameters())} parameters", flush=True)


if __name__ == "__main__":
    main()
