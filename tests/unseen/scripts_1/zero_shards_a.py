"""ZeRO-1 flavoured optimiser: reduce_scatter gradients, step own shard, all_gather back."""
import math
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn


class ShardedSGD:
    def __init__(self, params, lr):
        self.params = list(params)
        self.lr = lr
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.total = sum(p.numel() for p in self.params)
        self.padded = self.total
        self.moment = None

    def _flatten(self, tensors):
        flat = torch.zeros(self.padded)
        flat[: self.total] = torch.cat([t.reshape(-1) for t in tensors])
        return flat

    @torch.no_grad()
    def step(self):
        grads = self._flatten([p.grad for p in self.params])
        chunks = list(grads.chunk(self.world))
        mine = torch.empty_like(chunks[self.rank])
        dist.reduce_scatter(mine, chunks)
        mine /= self.world
        self.moment = mine if self.moment is None else 0.9 * self.moment + mine
        weights = self._flatten([p.data for p in self.params])
        own = weights.chunk(self.world)[self.rank] - self.lr * self.moment
        gathered = [torch.empty_like(own) for _ in range(self.world)]
        dist.all_gather(gathered, own)
        new, at = torch.cat(gathered), 0
        for p in self.params:
            p.copy_(new[at:at + p.numel()].view_as(p))
            p.grad = None
            at += p.numel()


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(7, 10), nn.Tanh(), nn.Linear(10, 3))


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    model = net()
    opt = ShardedSGD(model.parameters(), lr=0.05)
    g = torch.Generator().manual_seed(60 + rank)
    for step in range(5):
        x = torch.randn(10, 7, generator=g)
        loss = nn.functional.mse_loss(model(x), x[:, :3])
        loss.backward()
        opt.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"step {step} loss {shown.item() / opt.world:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
