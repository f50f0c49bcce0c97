"""DDP on three ranks; rank 0 writes a line of metrics, and all meet at a barrier after each step."""
import json
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pace import Pace

STEPS = 60
BATCH = 400


class Metrics:
    def __init__(self, path):
        self.file = open(path, "w", buffering=1)

    def write(self, **values):
        self.file.write(json.dumps(values) + "\n")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        metrics = Metrics(os.path.join(folder, "metrics.jsonl")) if rank == 0 else None
        for step in range(STEPS):
            x = torch.randn(BATCH, 300, generator=generator)
            y = x[:, :10].argmax(1)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if rank == 0:
                metrics.write(step=step, loss=loss.item(), lr=optimizer.param_groups[0]["lr"])
            dist.barrier()
            pace.tick()
        if rank == 0:
            metrics.file.close()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
