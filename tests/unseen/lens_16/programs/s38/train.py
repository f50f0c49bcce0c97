import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from points import Clouds, PointNet


class Report:
    """Rank 0 alone writes, one line every 25 steps."""

    def __init__(self, folder, every=25):
        self.path, self.every = os.path.join(folder, "progress.jsonl"), every

    def __call__(self, step, loss, model):
        if step % self.every == self.every - 1:
            norm = torch.stack([p.detach().norm() for p in model.parameters()]).norm()
            with open(self.path, "a") as file:
                file.write(json.dumps({"step": step + 1, "loss": loss.item(), "norm": norm.item()}) + "\n")


def main(steps=60, batch=16):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = Clouds()
    loader = DataLoader(data, batch, sampler=DistributedSampler(data, seed=1), drop_last=True)
    model = DDP(PointNet())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        report = Report(folder)
        for step, (x, y) in zip(range(steps), loader):
            began = time.perf_counter()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                report(step, loss, model)
            times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
