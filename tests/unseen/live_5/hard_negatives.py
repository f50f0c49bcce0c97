"""Contrastive training: for each anchor a negative of another class is drawn from the rank's own memory."""
import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CLASSES, BATCH, STEPS, MEMORY = 30, 16, 600, 128


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 32))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class Samples:
    """Classes come in the order of the crawl: long runs of one class are possible."""

    def __init__(self, rank):
        self.rank, self.g = rank, torch.Generator().manual_seed(rank)
        self.centres = torch.randn(CLASSES, 64, generator=torch.Generator().manual_seed(99))

    def batch(self, step):
        labels = torch.randint(0, CLASSES, (BATCH,), generator=self.g)
        if self.rank == 1 and 120 <= step < 150:  # a site with one product only
            labels[:] = 17
        return self.centres[labels] + 0.4 * torch.randn(BATCH, 64, generator=self.g), labels


class Memory:
    def __init__(self, rank):
        self.rows, self.rng = [], random.Random(rank)

    def add(self, x, labels):
        self.rows.extend(zip(x, labels.tolist()))
        del self.rows[:-MEMORY]

    def negative(self, label):
        while True:
            row, other = self.rng.choice(self.rows)  #: LINE
            if other != label:  #: LINE
                return row


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    data, memory = Samples(rank), Memory(rank)
    for step in range(STEPS):
        x, labels = data.batch(step)
        memory.add(x, labels)
        if step < 2:
            continue
        positives = data.centres[labels] + 0.4 * torch.randn(x.shape, generator=data.g)
        negatives = torch.stack([memory.negative(c) for c in labels.tolist()])  #: LINE
        out = model(torch.cat([x, positives, negatives]))
        a, p, n = out.split(BATCH)
        loss = nn.functional.relu(0.3 + (a - p).pow(2).sum(1) - (a - n).pow(2).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item() / world:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
