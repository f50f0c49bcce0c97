#!/usr/bin/env python
# Two-phase training: run some epochs, "lose the node", resume from the file beside this script.
import json
import os
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

HERE = Path(__file__).resolve().parent
OUT = HERE / "digits_out"
CKPT = OUT / "state.pt"
TOTAL_EPOCHS = 5


def git_revision():
    try:
        r = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
        )
        return r.stdout.strip() or "unknown"
    except OSError:
        return "unknown"


class Net(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.a = nn.Linear(8, width)
        self.b = nn.Linear(width, 4)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def batches(epoch, rank, per_epoch=4):
    g = torch.Generator().manual_seed(1000 * epoch + rank)
    for _ in range(per_epoch):
        x = torch.randn(16, 8, generator=g)
        yield x, x[:, :4].argmax(dim=1)


def run(first, last, net, opt, rank):
    for epoch in range(first, last):
        total = 0.0
        for x, y in batches(epoch, rank):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        if rank == 0:
            part = CKPT.with_suffix(".tmp")
            torch.save({"net": net.module.state_dict(), "epoch": epoch + 1}, part)
            part.rename(CKPT)
            print("epoch", epoch, "loss", round(total / 4, 4), flush=True)
        dist.barrier()


def build():
    torch.manual_seed(11)
    net = nn.parallel.DistributedDataParallel(Net())
    return net, torch.optim.Adam(net.parameters(), lr=1e-2)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    if rank == 0:
        OUT.mkdir(exist_ok=True)
        CKPT.unlink(missing_ok=True)
        meta = {"rev": git_revision(), "started": time.strftime("%F %T")}
        (OUT / "meta.json").write_text(json.dumps(meta))
    dist.barrier()

    net, opt = build()
    run(0, 2, net, opt, rank)

    # second life of the job
    net, opt = build()
    start = 0
    if rank == 0 and CKPT.exists():
        saved = torch.load(CKPT, map_location="cpu")
        net.module.load_state_dict(saved["net"])
        start = saved["epoch"]
    run(start, TOTAL_EPOCHS, net, opt, rank)

    if rank == 0:
        print("finished", json.loads((OUT / "meta.json").read_text())["rev"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
