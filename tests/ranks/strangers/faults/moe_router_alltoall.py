#: n=4 ranks=2 cause=different_op tier=error set=3
"""Mixture of experts, one expert per rank, fixed capacity token exchange."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

CAP, DIM = 4, 8


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty_like(g)
        dist.all_to_all_single(out, g.contiguous())
        return out


class Router(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.world = world
        self.gate = nn.Linear(DIM, world)

    def plan(self, x):
        """Token slots per expert: (world, CAP) indices, -1 for an empty slot."""
        choice = self.gate(x).argmax(-1)
        slots = torch.full((self.world, CAP), -1)
        for e in range(self.world):
            idx = (choice == e).nonzero().flatten()[:CAP]
            slots[e, : idx.numel()] = idx
        return slots


class MoELayer(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.router = Router(world)
        self.expert = nn.Sequential(nn.Linear(DIM, 16), nn.ReLU(), nn.Linear(16, DIM))
        self.world = world

    def dense_fallback(self, packed):
        # no token was routed: look at everybody's tokens instead of exchanging
        everyone = torch.empty(self.world * packed.size(0), DIM)
        print("FREEZE", time.time(), flush=True)
        dist.all_gather_into_tensor(everyone, packed)  #: LINE
        return everyone.view(self.world, -1, DIM).mean(0)

    def forward(self, x, valid):
        slots = self.router.plan(x)
        slots[(slots >= 0) & ~valid[slots.clamp(min=0)]] = -1
        mask = (slots >= 0).flatten().unsqueeze(-1).float()
        packed = x[slots.clamp(min=0).flatten()] * mask
        if mask.sum() == 0:
            return self.dense_fallback(packed)
        arrived = Exchange.apply(packed)
        return Exchange.apply(self.expert(arrived)) * mask


def tokens(rank, step, gen):
    time.sleep(0.15)
    x = torch.randn(16, DIM, generator=gen)
    valid = torch.ones(16, dtype=torch.bool)
    if rank == 2 and step == 18:
        valid[:] = False              # a batch of padding only
    return x.requires_grad_(), valid


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = int(os.environ["RANK"]), dist.get_world_size()
    torch.manual_seed(40)
    layer = MoELayer(world)
    opt = torch.optim.SGD(layer.expert.parameters(), lr=0.01)
    gen = torch.Generator().manual_seed(rank)
    for step in range(60):
        x, valid = tokens(rank, step, gen)
        loss = layer(x, valid).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print("step", step, "loss", loss.item(), flush=True)
    dist.destroy_process_group()


main()
