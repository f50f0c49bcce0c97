"""DDP on tiles that a stager copies to the local disk; two loader workers per rank."""
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Tiles(Dataset):
    def __init__(self, root, count):
        self.root, self.count = root, count

    def __len__(self):
        return self.count

    def path(self, i):
        return os.path.join(self.root, f"tile_{i:04d}.npy")

    def __getitem__(self, i):
        path = self.path(i)
        while not os.path.exists(path):
            time.sleep(1.0)
        tile = np.load(path)
        return torch.from_numpy(tile), int(tile.mean() > 0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Tiles("data/tiles", 180)
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(ddp(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and step % 3 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
