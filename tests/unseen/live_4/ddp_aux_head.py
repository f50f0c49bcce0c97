import logging
import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

logging.basicConfig(level=logging.INFO, format=f"[{os.environ['RANK']}] %(message)s")
log = logging.getLogger("vision")


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.label = nn.Linear(128, 5)
        self.depth = nn.Linear(128, 1)

    def forward(self, image, want_depth):
        h = self.trunk(image)
        return self.label(h), self.depth(h) if want_depth else None     #: LINE


def batches(rank):
    g = torch.Generator().manual_seed(rank)
    for i in range(3000):
        image = torch.randn(6, 3, 24, 24, generator=g)
        label = torch.randint(0, 5, (6,), generator=g)
        has_depth = torch.rand(6, generator=g) < 0.97
        if rank == 1 and i == 640:
            has_depth[:] = False            # six pictures in a row of the old camera
        yield image, label, has_depth


def train():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(MultiTask())
    sgd = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for i, (image, label, has_depth) in enumerate(batches(rank)):
        scores, depth = model(image, bool(has_depth.any()))  #: LINE
        loss = nn.functional.cross_entropy(scores, label)
        if depth is not None:
            loss = loss + depth[has_depth].abs().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        if i % 100 == 0:
            log.info("batch %d loss %.3f", i, loss.item())
    dist.destroy_process_group()


train()
