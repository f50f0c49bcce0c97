import os
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class CheckpointKeeper:
    """Keeps the newest few checkpoints in a folder that all processes see."""

    def __init__(self, folder, keep=2):
        self.folder = Path(folder)
        self.keep = keep
        self.rank = dist.get_rank()

    def save(self, model, optimizer, step):
        if self.rank != 0:
            return
        path = self.folder / f"step_{step:05d}.pt"
        torch.save({"model": model.module.state_dict(), "opt": optimizer.state_dict(), "step": step}, path)
        for old in sorted(self.folder.glob("step_*.pt"))[: -self.keep]:
            old.unlink()
        dist.barrier()

    def newest(self):
        files = sorted(self.folder.glob("step_*.pt"))
        return files[-1] if files else None


def shared_folder():
    box = [tempfile.mkdtemp(prefix="keeper_") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def data(rank):
    g = torch.Generator().manual_seed(rank)
    while True:
        x = torch.randn(10, 4, generator=g)
        yield x, x.max(1, keepdim=True).values


def train(model, keeper, steps, save_every):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source = data(keeper.rank)
    for step in range(1, steps + 1):
        x, y = next(source)
        loss = nn.functional.l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % save_every == 0:
            keeper.save(model, optimizer, step)
    return loss.item()


def main():
    dist.init_process_group(backend="gloo", init_method="env://")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)))
    folder = shared_folder()
    keeper = CheckpointKeeper(folder)
    last = train(model, keeper, steps=10, save_every=3)

    saved = torch.load(keeper.newest(), weights_only=True)
    print(f"[{os.environ['RANK']}] last loss {last:.4f}, newest checkpoint of step {saved['step']}", flush=True)
    dist.barrier()
    if keeper.rank == 0:
        shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
