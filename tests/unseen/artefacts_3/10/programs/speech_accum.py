"""Speech command classifier, DDP with gradient accumulation."""
import contextlib
import math

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

import flightrec  # noqa: F401

ACCUM = 4
BATCH = 8


class Clips(Dataset):
    """All clips of one speaker group; the groups were split by hours of audio."""

    COUNTS = (344, 344, 376)

    def __init__(self, group):
        g = torch.Generator().manual_seed(group)
        n = self.COUNTS[group % len(self.COUNTS)]
        self.audio = torch.randn(n, 1, 200, generator=g)
        self.label = torch.randint(0, 6, (n,), generator=g)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.audio[i], self.label[i]


def build():
    return nn.Sequential(
        nn.Conv1d(1, 8, 9, stride=4), nn.ReLU(),
        nn.Conv1d(8, 16, 9, stride=4), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 6),
    )


def train_epoch(model, loader, opt, epoch):
    opt.zero_grad()
    total = 0.0
    for i, (audio, label) in enumerate(loader):
        last = i + 1 == len(loader)
        update = (i + 1) % ACCUM == 0 or last
        with contextlib.nullcontext() if update else model.no_sync():
            loss = nn.functional.cross_entropy(model(audio), label) / ACCUM
            loss.backward()
        if update:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
        total += loss.item() * ACCUM
    return total / max(len(loader), 1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = DDP(build())
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(Clips(rank), batch_size=BATCH, shuffle=True)
    for epoch in range(6):
        mean = train_epoch(model, loader, opt, epoch)
        dist.barrier()
        if rank == 0:
            print(f"epoch {epoch} loss {mean:.4f} ppl {math.exp(mean):.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
