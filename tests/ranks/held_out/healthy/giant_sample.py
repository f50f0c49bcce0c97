#: n=2 ok set=2
"""Whole-slide images: most tiles are small, but a few slides take a worker
very long to decode."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Subset

SLIDES = 480
GIANT = {321: 22.0}  # index -> seconds


class SlideDataset(Dataset):
    def __len__(self):
        return SLIDES

    def __getitem__(self, i):
        if i in GIANT:
            print("FREEZE", time.time(), flush=True)
            self._decode_giant(GIANT[i])
        else:
            time.sleep(0.03)
        gen = torch.Generator().manual_seed(i)
        return torch.rand(1, 10, 10, generator=gen), i % 2

    def _decode_giant(self, seconds):
        # libtiff works off one strip after the other
        end = time.monotonic() + seconds
        checksum = 0
        while time.monotonic() < end:
            checksum = (checksum * 31 + sum(range(20_000))) % 65_521
            time.sleep(0.02)
        return checksum


def my_part(dataset, rank, world):
    # no shuffling: the slides of one patient stay together
    return Subset(dataset, list(range(rank, len(dataset), world)))


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)
    )


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(9)
    model = DDP(make_net(), static_graph=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(
        my_part(SlideDataset(), rank, world),
        batch_size=6,
        num_workers=2,
        prefetch_factor=2,
        persistent_workers=True,
    )
    waits = []
    tick = time.monotonic()
    for step, (tiles, labels) in enumerate(loader):
        waits.append(time.monotonic() - tick)
        loss = nn.functional.cross_entropy(model(tiles), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.3f} data {waits[-1]:.2f}s", flush=True)
        tick = time.monotonic()

    longest = torch.tensor([max(waits)])
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(f"longest wait for data on any rank: {longest.item():.1f}s", flush=True)
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
