#: n=4 ranks=0 cause=checkpoint_io tier=notice
import dataclasses
import os
import random
import shutil
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


@dataclasses.dataclass
class Config:
    save_every: int = random.Random(555).randint(8, 13)
    steps: int = 80
    channels: int = 64


class ConvNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.body = nn.Conv2d(c, c, 3, padding=1)
        self.fc = nn.Linear(c, 5)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(self.body(x))
        return self.fc(x.mean((2, 3)))


class StageDirectory:
    """Local stage on the burst buffer; later saves go through the uploader's pipe."""

    def __init__(self, root, piped):
        self.root, self.piped = root, piped
        self.open_pipes = []

    def target(self, step):
        path = os.path.join(self.root, f"ckpt_{step}.pt")
        if step == self.piped:
            os.mkfifo(path)
            self.open_pipes.append(os.open(path, os.O_RDWR))
        return path


def save_checkpoint(stage, step, model, opt):
    if dist.get_rank() == 0:
        state = {"step": step, "model": model.module.state_dict(), "opt": opt.state_dict()}
        path = stage.target(step)
        if step == stage.piped:
            print("FREEZE", time.time(), flush=True)
        with open(path, "wb") as f:
            torch.save(state, f)  #: LINE
    dist.barrier()


def train(cfg, stage):
    torch.manual_seed(10)
    model = DistributedDataParallel(ConvNet(cfg.channels))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, cfg.steps):
        time.sleep(0.15)
        images, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
        loss = nn.functional.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % cfg.save_every == 0:
            save_checkpoint(stage, step, model, opt)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    root = tempfile.mkdtemp()
    cfg = Config()
    try:
        train(cfg, StageDirectory(root, piped=2 * cfg.save_every))
        dist.barrier()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
