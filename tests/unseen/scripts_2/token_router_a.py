"""Hash-routed mixture of experts, one expert per process, limited capacity."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, recv):
        ctx.send, ctx.recv = send, recv
        out = x.new_empty((sum(recv), x.size(1)))
        dist.all_to_all_single(out, x.contiguous(), recv, send)
        return out

    @staticmethod
    def backward(ctx, grad):
        back = grad.new_empty((sum(ctx.send), grad.size(1)))
        dist.all_to_all_single(back, grad.contiguous(), ctx.send, ctx.recv)
        return back, None, None


class HashMoE(nn.Module):
    def __init__(self, dim, world, capacity):
        super().__init__()
        self.world, self.capacity = world, capacity
        self.expert = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def plan(self, ids):
        target = ids % self.world
        order = torch.argsort(target, stable=True)
        counts = torch.bincount(target, minlength=self.world)
        kept = []
        for expert, block in enumerate(order.split(counts.tolist())):
            kept.append(block[: self.capacity])
        incoming = torch.empty_like(counts)
        dist.all_to_all_single(incoming, counts)
        return torch.cat(kept), [len(k) for k in kept], incoming.tolist()

    def forward(self, x, ids):
        kept, send, recv = self.plan(ids)
        there = AllToAll.apply(x[kept], send, recv)
        back = AllToAll.apply(self.expert(there), recv, send)
        return x.index_add(0, kept, back)


def tokens(step, rank, n=24):
    g = torch.Generator().manual_seed(step * 31 + rank)
    ids = torch.arange(n) + torch.randint(0, 50, (1,), generator=g)
    if (step, rank) in {(3, 2), (6, 0)}:
        ids = torch.cat([ids[:12], torch.full((n - 12,), 44)])
    return ids


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    steps = int(os.environ.get("STEPS", 8))
    torch.manual_seed(0)
    emb = nn.Embedding(128, 16)
    head = nn.Linear(16, 4)
    torch.manual_seed(10 + rank)
    moe = HashMoE(16, world, capacity=8)
    shared = list(emb.parameters()) + list(head.parameters())
    opt = torch.optim.SGD(shared + list(moe.parameters()), lr=0.1)

    for step in range(steps):
        ids = tokens(step, rank)
        logits = head(moe(emb(ids), ids))
        loss = nn.functional.cross_entropy(logits, ids // 4 % 4)
        opt.zero_grad()
        loss.backward()
        for p in shared:
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
    dist.reduce(loss.detach_(), dst=0)
    if rank == 0:
        print("loss", round(loss.item() / world, 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
