"""DDP with data workers that are started anew in each epoch and read their catalogue first; rank 0 polls the node's health."""
import os
import random
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

EPOCHS = 3


class Catalogue(Dataset):
    def __init__(self, n=1500):
        self.n, self.entries = n, None

    def __len__(self):
        return self.n

    def load(self, seconds):
        """Parses the catalogue, line after line."""
        begin, rng, entries = time.time(), random.Random(1), {}
        while time.time() - begin < seconds:
            for _ in range(200):
                line = f"{rng.randrange(self.n)},{rng.random():.4f},{rng.random():.4f}"
                i, a, b = line.split(",")
                entries[int(i)] = (float(a), float(b))
            time.sleep(0.002)
        self.entries = entries

    def __getitem__(self, i):
        if self.entries is None:
            self.load(9)
        a, b = self.entries.get(i, (0.5, 0.5))
        g = torch.Generator().manual_seed(i)
        x = torch.randn(48, generator=g) + a
        return x, torch.tensor([a, b])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, x):
        return self.net(x)


def node_health():
    """A child that fails now and then; nobody minds."""
    code = "import random, sys; sys.exit(3 if random.random() < 0.5 else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    return done.returncode


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    wishes = []
    signal.signal(signal.SIGUSR1, lambda *_: wishes.append("print"))
    torch.manual_seed(0)
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    data = Catalogue()
    sampler = DistributedSampler(data, world, rank)
    step = 0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler, num_workers=2):
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 40 == 0 and rank == 0:
                code = node_health()
                if code:
                    print(f"health check returned {code}, ignored", flush=True)
            if step % 60 == 0:
                os.kill(os.getpid(), signal.SIGUSR1)
            if wishes:
                wishes.clear()
                print(f"[{rank}] step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
