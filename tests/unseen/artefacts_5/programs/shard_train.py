"""DDP training, one JSONL shard per rank."""
import frdump  # noqa: F401
import json
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

BATCH = 8


def batches(path):
    rows = []
    with open(path) as f:
        for line in f:
            item = json.loads(line)
            rows.append((item["x"], item["y"]))
            if len(rows) == BATCH:
                x = torch.tensor([r[0] for r in rows])
                y = torch.tensor([r[1] for r in rows])
                yield x, y
                rows = []


def train_epoch(ddp, opt, path, epoch, rank):
    loss_fn = nn.CrossEntropyLoss()
    total, steps = 0.0, 0
    for x, y in batches(path):
        loss = loss_fn(ddp(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        total += loss.item()
        steps += 1
        if rank == 0 and steps % 5 == 0:
            print(f"epoch {epoch} step {steps} loss {loss.item():.4f}", flush=True)
    return total / max(steps, 1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    ddp = DDP(model)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    path = f"data/part-{rank:05d}.jsonl"
    for epoch in range(3):
        mean = train_epoch(ddp, opt, path, epoch, rank)
        dist.barrier()
        if rank == 0:
            os.makedirs("out", exist_ok=True)
            torch.save(model.state_dict(), f"out/epoch{epoch}.pt")
            print(f"epoch {epoch} done, mean loss {mean:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
