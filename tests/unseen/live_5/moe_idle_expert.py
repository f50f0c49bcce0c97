"""Mixture of experts, four experts on two expert-parallel ranks, each pair kept twice (data parallel)."""
import os

import torch
import torch.distributed as dist
from torch import nn

DIM, STEPS, TOKENS = 64, 400, 48
EP = 2  # ranks that share the experts


class Route(torch.autograd.Function):
    """all_to_all of rows, with its transposed exchange in the backward."""

    @staticmethod
    def forward(ctx, x, send, recv, group):
        ctx.send, ctx.recv, ctx.group = send, recv, group
        out = x.new_empty(sum(recv), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), recv, send, group=group)
        return out

    @staticmethod
    def backward(ctx, g):
        out = g.new_empty(sum(ctx.send), g.shape[1])
        dist.all_to_all_single(out, g.contiguous(), ctx.send, ctx.recv, group=ctx.group)
        return out, None, None, None


class MoE(nn.Module):
    def __init__(self, ep_group):
        super().__init__()
        self.group = ep_group
        self.gate = nn.Linear(DIM, 2 * EP)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(DIM, 128), nn.ReLU(), nn.Linear(128, DIM)) for _ in range(2))

    def forward(self, x, closed):
        logits = self.gate(x)
        logits = logits.masked_fill(closed, -1e9)
        top, which = logits.softmax(-1).max(-1)
        order = which.argsort(stable=True)
        counts = torch.bincount(which, minlength=2 * EP)
        got = torch.empty_like(counts)
        dist.all_to_all_single(got, counts, group=self.group)
        send = counts.view(EP, 2).sum(1).tolist()
        recv = got.view(EP, 2).sum(1).tolist()
        rows = Route.apply(x[order], send, recv, self.group)
        parts, at = [], 0
        for source in range(EP):
            for e in range(2):
                n = int(got[source * 2 + e])
                if n:
                    parts.append(self.experts[e](rows[at : at + n]))
                at += n
        done = torch.cat(parts) if parts else rows
        back = Route.apply(done, recv, send, self.group)
        out = torch.empty_like(x).index_copy(0, order, back)
        return x + top[:, None] * out


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    ep_group = dp_group = None
    for first in range(0, world, EP):
        g = dist.new_group(list(range(first, first + EP)))
        ep_group = g if first <= rank < first + EP else ep_group
    for k in range(EP):
        g = dist.new_group(list(range(k, world, EP)))
        dp_group = g if rank % EP == k else dp_group
    torch.manual_seed(5)
    moe, head = MoE(ep_group), nn.Linear(DIM, 10)
    params = list(moe.parameters()) + list(head.parameters())
    opt = torch.optim.SGD(params, lr=0.05)
    g = torch.Generator().manual_seed(40 + rank)
    closed = torch.zeros(2 * EP, dtype=torch.bool)
    for step in range(STEPS):
        x = torch.randn(TOKENS, DIM, generator=g)
        y = x[:, :10].argmax(1)
        # domain routing: from this point on the second replica's text is of one language only
        closed[1] = step >= 180 and rank // EP == 1
        loss = nn.functional.cross_entropy(head(moe(x, closed)), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        for p in moe.experts.parameters():
            if p.grad is not None:  #: LINE
                dist.all_reduce(p.grad, group=dp_group)
        for p in list(moe.gate.parameters()) + list(head.parameters()):
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if step % 50 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
