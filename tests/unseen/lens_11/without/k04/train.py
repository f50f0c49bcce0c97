"""Crop segmentation, data parallel."""
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from fields import Tiles, write_outlines
from pace import Pace

TILES, BATCH, STEPS = 160, 6, 62


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(32, 96, 3, padding=1), nn.ReLU(),
                                    nn.Conv2d(96, 32, 3, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2))
        self.out = nn.Conv2d(64, 6, 1)

    def forward(self, x):
        fine = self.down(x)
        return self.out(torch.cat([fine, self.middle(fine)], 1))


def run(rank, world, folder):
    tiles = Tiles(folder, TILES)
    torch.manual_seed(0)
    model = DistributedDataParallel(Segmenter())
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    pace = Pace()
    for step in range(STEPS):
        order = torch.randperm(TILES, generator=torch.Generator().manual_seed(step))
        bands, crops = tiles.batch(order[rank * BATCH:(rank + 1) * BATCH])
        loss = F.cross_entropy(model(bands), crops)
        loss.backward()
        opt.step()
        opt.zero_grad()
        pace.tick()
        if rank == 0 and step % 20 == 19:
            print(f"{step + 1:3d} loss {loss.item():.4f}")
    if rank == 0:
        pace.report()
    del model


if __name__ == "__main__":
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        write_outlines(folder, TILES)
        run(dist.get_rank(), dist.get_world_size(), folder)
        dist.barrier()
    dist.destroy_process_group()
