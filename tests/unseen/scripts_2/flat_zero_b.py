"""Optimizer state and update sharded over the processes: reduce-scatter, local Adam, all-gather."""
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector as to_vec
from torch.nn.utils import vector_to_parameters as from_vec


class FlatZero:
    def __init__(self, model, lr=1e-2, betas=(0.9, 0.99), eps=1e-8):
        self.model, self.lr, self.betas, self.eps = model, lr, betas, eps
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        with torch.no_grad():
            flat = to_vec(model.parameters())
        self.numel = flat.numel()
        self.per = math.ceil(self.numel / self.world)
        self.padded = self.per * self.world
        flat = F.pad(flat, (0, self.padded - self.numel))
        lo = self.rank * self.per
        self.shard = flat[lo : lo + self.per].clone()
        self.m = torch.zeros_like(self.shard)
        self.v = torch.zeros_like(self.shard)
        self.t = 0

    def _grad_shard(self):
        grads = to_vec(p.grad for p in self.model.parameters())
        grads = F.pad(grads, (0, self.padded - self.numel)) / self.world
        out = torch.empty(self.per)
        dist.reduce_scatter_tensor(out, grads)
        return out[: self.shard.numel()]

    @torch.no_grad()
    def step(self):
        self.t += 1
        g = self._grad_shard()
        b1, b2 = self.betas
        self.m.lerp_(g, 1 - b1)
        self.v.mul_(b2).addcmul_(g, g, value=1 - b2)
        scale = self.lr * math.sqrt(1 - b2**self.t) / (1 - b1**self.t)
        self.shard.addcdiv_(self.m, self.v.sqrt().add_(self.eps), value=-scale)
        full = torch.empty(self.padded)
        dist.all_gather_into_tensor(full, self.shard)
        from_vec(full[: self.numel], self.model.parameters())


def train(steps=10):
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 11), nn.GELU(), nn.Linear(11, 3))
    opt = FlatZero(model)
    g = torch.Generator().manual_seed(200 + opt.rank)
    for _ in range(steps):
        x = torch.randn(16, 5, generator=g)
        loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
        model.zero_grad()
        loss.backward()
        opt.step()
    return loss.detach()


def main():
    dist.init_process_group(backend="gloo")
    loss = train()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    if dist.get_rank() == 0:
        print(f"mean loss {loss.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
