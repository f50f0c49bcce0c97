#: n=4 ranks=3 cause=skipped_collective tier=error set=3
"""2x2 mesh: data parallel x tensor parallel regression with periodic snapshots."""
import os
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))  #: LINE


class Snapshots:
    """Every rank writes its own shard, then all agree the snapshot is complete."""

    def __init__(self, rank, quota=3):
        self.rank = rank
        self.dir = tempfile.mkdtemp(prefix=f"snap_r{rank}_")
        self.quota = quota
        self.written = 0

    def _reserve(self, nbytes):
        # an operator gave the node of rank 3 a smaller scratch area
        limit = self.quota if self.rank == 3 else 10 ** 6
        return self.written < limit

    def save(self, step, model):
        if not self._reserve(4096):  #: LINE
            print(f"[rank {self.rank}] scratch is full, no snapshot at {step}")
            print("FREEZE", time.time(), flush=True)
            return False
        state = {k: v.to_local().clone() for k, v in model.state_dict().items()}
        torch.save(state, os.path.join(self.dir, f"{step}.pt"))
        self.written += 1
        dist.barrier()
        return True


class Trainer:
    def __init__(self, mesh):
        torch.manual_seed(11)
        self.mesh = mesh
        self.dp = mesh.get_group("dp")
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        self.model = parallelize_module(MLP(), mesh["tp"], plan)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.gen = torch.Generator().manual_seed(50 + mesh.get_local_rank("dp"))

    def batch(self):
        time.sleep(0.15)
        x = torch.randn(4, 8, generator=self.gen)
        return x, x.flip(-1)

    @torch.no_grad()
    def sync_grads(self):
        for p in self.model.parameters():
            g = p.grad.to_local()
            dist.all_reduce(g, group=self.dp)
            g.div_(2)

    def step(self):
        x, y = self.batch()
        pred = self.model(x)  #: LINE
        loss = ((pred - y) ** 2).mean()  #: LINE
        self.opt.zero_grad()
        loss.backward()
        self.sync_grads()
        self.opt.step()
        return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    trainer, snaps = Trainer(mesh), Snapshots(dist.get_rank())
    for step in range(1, 80):
        loss = trainer.step()
        if step % 6 == 0:
            snaps.save(step, trainer.model)
            if dist.get_rank() == 0:
                print(step, f"{loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
