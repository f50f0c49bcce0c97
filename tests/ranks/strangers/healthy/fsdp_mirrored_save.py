#: n=4 ok set=2
"""FSDP2 training with torch.distributed.checkpoint. After each save one rank
copies the files to the (slow) mirror before training goes on."""
import os
import shutil
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

SAVE_EVERY = 20
MIRROR_RANK = 3
CHUNK = 256 << 10


class Tower(nn.Module):
    def __init__(self, dim=16, depth=2):
        super().__init__()
        self.inp = nn.Linear(8, dim)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        self.out = nn.Linear(dim, 4)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + block(h)
        return self.out(h)


def shard(model, world):
    mesh = init_device_mesh("cpu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)
    return model


def slow_mirror(src_dir, dst_dir, chunks=80):
    """The mirror takes ~1 MB/s; we pad to whole objects."""
    os.makedirs(dst_dir, exist_ok=True)
    with open(os.path.join(dst_dir, "bundle.bin"), "wb") as out:
        for name in sorted(os.listdir(src_dir)):
            with open(os.path.join(src_dir, name), "rb") as fh:
                out.write(fh.read())
        for _ in range(chunks):
            out.write(b"\0" * CHUNK)
            out.flush()
            os.fsync(out.fileno())
            time.sleep(0.25)


def save(model, step, root, rank):
    path = os.path.join(root, f"step_{step:05d}")
    dcp.save({"model": model.state_dict(), "step": step}, checkpoint_id=path)
    if rank == MIRROR_RANK:
        print("FREEZE", time.time(), flush=True)
        slow_mirror(path, path + "_mirror")
    dist.barrier()
    return path


def shared_workdir(rank):
    box = [tempfile.mkdtemp(prefix="tower_") if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = shard(Tower(), world)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(rank)
    root = shared_workdir(rank)

    for step in range(1, 36):
        time.sleep(0.15)
        x = torch.randn(10, 8, generator=gen)
        loss = nn.functional.mse_loss(model(x), x[:, :4])
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % SAVE_EVERY == 0:
            path = save(model, step, root, rank)
            if rank == 0:
                print("saved", path, flush=True)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    if rank == 0:
        shutil.rmtree(root, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
