"""FSDP2 training of a stack of blocks; the full state is written by rank 0."""
import os
import pathlib
import subprocess
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FOLDER = pathlib.Path(__file__).resolve().parent / "fsdp2_weights"


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.lin = nn.Linear(d, d)

    def forward(self, x):
        return x + torch.relu(self.lin(self.norm(x)))


class Tower(nn.Module):
    def __init__(self, d=8, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.out = nn.Linear(d, 2)

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def shard(model, mesh):
    for b in model.blocks:
        fully_shard(b, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def revision():
    try:
        return subprocess.check_output(
            ["git", "rev-parse", "HEAD"], stderr=subprocess.DEVNULL, text=True
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "n/a"


def save(model, step, rank):
    opts = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=opts)
    if rank == 0:
        FOLDER.mkdir(exist_ok=True)
        part = FOLDER / f"step{step}.part"
        torch.save({"model": state, "git": revision()}, part)
        os.rename(part, FOLDER / f"step{step}.pt")
        print("saved step", step, "with", len(state), "tensors")


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    model = shard(Tower(), mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    g = torch.Generator().manual_seed(50 + rank)
    for step in range(6):
        x = torch.randn(8, 8, generator=g)
        y = (x[:, 0] > 0).long()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step == 5:
            save(model, step, rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
