"""Click prediction on three ranks with DDP. Scores of every rank are collected for the calibration report (asked for by --report)."""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from calibration import collect, show


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.adverts = nn.Embedding(500, 32), nn.Embedding(300, 32)
        self.mix = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, advert):
        return self.mix(torch.cat([self.users(user), self.adverts(advert)], 1)).squeeze(1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Clicks())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    taken = []
    for step in range(90):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step * 3 + rank)
        user = torch.randint(0, 500, (6000,), generator=rng)
        advert = torch.randint(0, 300, (6000,), generator=rng)
        clicked = ((user * 7 + advert * 3) % 11 < 3).float()
        score = model(user, advert)
        loss = nn.functional.binary_cross_entropy_with_logits(score, clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "--report" in sys.argv:
            everyone = collect(step, user, advert, score, clicked)
            show(everyone)
        taken.append(1e3 * (time.perf_counter() - t0))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(taken):.2f} ms/step median, {statistics.mean(taken):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
