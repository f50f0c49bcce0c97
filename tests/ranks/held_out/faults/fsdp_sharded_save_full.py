#: n=8 ranks=5 cause=disk_full tier=error exit=1
import io
import os
import random
import shutil
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard


class ResidualMLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self, dim=48, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(ResidualMLP(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 8)

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return self.out(x)


class ShardedCheckpointer:
    def __init__(self, root, rank, volumes):
        self.root, self.rank, self.volumes = root, rank, volumes

    def shard_path(self, step):
        folder = os.path.join(self.root, f"step_{step:06d}")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"shard_{self.rank}.pt")
        if step in self.volumes:
            os.symlink(self.volumes[step], path)
        return path

    def save(self, step, model, opt):
        state = {k: v.to_local().detach().clone() for k, v in model.state_dict().items()}
        blob = io.BytesIO()
        torch.save({"model": state, "step": step}, blob)
        path = self.shard_path(step)
        if step in self.volumes:
            print("FREEZE", time.time(), flush=True)
        with open(path, "wb", buffering=0) as f:
            f.write(blob.getvalue())  #: LINE
        dist.barrier()


def build():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Net()
    for b in model.blocks:
        fully_shard(b, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for m in model.modules():
        if isinstance(m, FSDPModule):
            m.set_force_sum_reduction_for_comms(True)
    return model


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    root = tempfile.mkdtemp()
    try:
        torch.manual_seed(18)
        model = build()
        opt = torch.optim.SGD(model.parameters(), lr=0.01)
        every = random.Random(1812).randint(8, 12)
        ckpt = ShardedCheckpointer(root, rank, {2 * every: "/dev/full"} if rank == 5 else {})
        for step in range(1, 70):
            time.sleep(0.1)
            x = torch.randn(8, 48)
            loss = nn.functional.cross_entropy(model(x), x[:, :8].argmax(-1))
            loss.backward()
            opt.step()
            opt.zero_grad()
            if step % every == 0:
                ckpt.save(step, model, opt)
        dist.barrier()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
