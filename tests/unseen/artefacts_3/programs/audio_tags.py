"""Audio tagging; the loader decodes the compressed clips with an external tool."""
import os
import subprocess

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import flightrec  # noqa: F401

CLIPS = os.environ.get("CLIPS", "clips")


def decode(path):
    out = subprocess.run(f"gzip -dc < {path}", shell=True, stdout=subprocess.PIPE, check=True).stdout
    return torch.frombuffer(bytearray(out), dtype=torch.uint8).float() / 128 - 1


class Clips(Dataset):
    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".gz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return decode(self.paths[i]), i % 5


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(800, 32), nn.ReLU(), nn.Linear(32, 5))
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = Clips(CLIPS)
    sampler = DistributedSampler(data, seed=7)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for i, (wave, tag) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(wave), tag)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 4 == 0:
                print(f"{epoch}:{i} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
