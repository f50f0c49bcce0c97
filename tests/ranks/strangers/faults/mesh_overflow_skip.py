#: n=8 ranks=5 cause=skipped_collective tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Mesh3D:
    """rank = dp * 4 + cp * 2 + tp"""

    def __init__(self):
        self.rank = dist.get_rank()
        self.tp, self.cp, self.dp = self.rank % 2, self.rank // 2 % 2, self.rank // 4
        self.tp_group = self._build([[b, b + 1] for b in (0, 2, 4, 6)])
        self.cp_group = self._build([[b, b + 2] for b in (0, 1, 4, 5)])
        self.dp_group = self._build([[b, b + 4] for b in (0, 1, 2, 3)])

    def _build(self, families):
        mine = None
        for ranks in families:
            group = dist.new_group(ranks, timeout=timedelta(minutes=10))
            if self.rank in ranks:
                mine = group
        return mine


class ReduceFromTensorParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class CopyToTensorParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class ShardedMLP(nn.Module):
    def __init__(self, mesh, dim=16, hidden=32):
        super().__init__()
        self.mesh = mesh
        self.pre = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, hidden // 2)
        self.down = nn.Linear(hidden // 2, dim, bias=False)

    def forward(self, x):
        x = CopyToTensorParallel.apply(self.pre(x), self.mesh.tp_group)
        return ReduceFromTensorParallel.apply(self.down(torch.relu(self.up(x))), self.mesh.tp_group)


class MixedPrecisionTrainer:
    def __init__(self, mesh):
        self.mesh = mesh
        torch.manual_seed(11 + mesh.tp)
        self.model = ShardedMLP(mesh)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.scale = 128.0
        self.skipped = 0

    def fetch(self, step, spike):
        g = torch.Generator().manual_seed(step * 31 + self.mesh.dp * 2 + self.mesh.cp)
        time.sleep(0.14)
        x = torch.randn(8, 16, generator=g)
        return x, spike

    def overflowed(self):
        return any(not torch.isfinite(p.grad).all() for p in self.model.parameters())

    def reduce_gradients(self):
        if self.overflowed():
            self.scale /= 2
            self.skipped += 1
            print("FREEZE", time.time(), flush=True)
            return False  #: LINE
        flat = torch.cat([p.grad.flatten() for p in self.model.parameters()]) / self.scale
        dist.all_reduce(flat, group=self.mesh.cp_group)
        dist.all_reduce(flat, group=self.mesh.dp_group)
        flat /= 4
        offset = 0
        for p in self.model.parameters():
            p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
            offset += p.numel()
        return True

    def step(self, step, spike):
        x, spike = self.fetch(step, spike)
        loss = (self.model(x) - x).pow(2).mean()
        (loss * self.scale).backward()
        if spike:
            self.model.up.weight.grad[0, 0] = float("inf")
        if self.reduce_gradients():
            self.optimizer.step()
        self.optimizer.zero_grad()
        stats = torch.tensor([loss.item(), float(self.skipped)])
        dist.all_reduce(stats)  #: LINE
        return stats / dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    mesh = Mesh3D()
    trainer = MixedPrecisionTrainer(mesh)
    spike_at = random.Random(90210).randint(16, 28)
    for step in range(80):
        stats = trainer.step(step, spike=mesh.rank == 5 and step == spike_at)
        if mesh.rank == 0 and step % 10 == 0:
            print(f"step {step} loss {stats[0]:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
