import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shards import Shards, write_shards


class Listener(nn.Module):
    def __init__(self, c=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(8, c, 7, stride=2, padding=3), nn.GELU(),
            nn.Conv1d(c, c, 5, padding=2), nn.GELU(),
            nn.Conv1d(c, c * 2, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(c * 2, c * 2, 3, padding=1), nn.GELU(),
        )
        self.head = nn.Linear(c * 2, 4)

    def forward(self, x):
        return self.head(self.body(x).mean(-1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        write_shards(folder, rank)
        shards = Shards(folder)
        model = DistributedDataParallel(Listener())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        took = []
        for step in range(64):
            t0 = time.perf_counter()
            signal, label = shards.read(step)
            loss = nn.functional.cross_entropy(model(signal), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            took.append((time.perf_counter() - t0) * 1000)
    if rank == 0:
        took = took[3:]
        print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
