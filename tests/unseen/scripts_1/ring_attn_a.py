"""Ring attention: the sequence is split over ranks, K/V blocks travel around the ring."""
import math
from datetime import timedelta

import torch
import torch.distributed as dist

BLOCK, HEADS, DIM = 4, 2, 8


def rotate(tensors, rank, world):
    """Pass tensors to the next rank, return those of the previous one."""
    nxt, prv = (rank + 1) % world, (rank - 1) % world
    fresh = [torch.empty_like(t) for t in tensors]
    ops = [dist.P2POp(dist.isend, t.contiguous(), nxt) for t in tensors]
    ops += [dist.P2POp(dist.irecv, f, prv) for f in fresh]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return fresh


def block_scores(q, k, causal):
    s = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool).triu(1)
        s = s.masked_fill(mask, float("-inf"))
    return s


def ring_attention(q, k, v, rank, world):
    top = torch.full((HEADS, BLOCK, 1), float("-inf"))
    den = torch.zeros(HEADS, BLOCK, 1)
    num = torch.zeros(HEADS, BLOCK, DIM)
    for hop in range(world):
        src = (rank - hop) % world
        if src <= rank:
            s = block_scores(q, k, causal=src == rank)
            new_top = torch.maximum(top, s.amax(-1, keepdim=True))
            scale = torch.exp(top - new_top)
            p = torch.exp(s - new_top)
            den = den * scale + p.sum(-1, keepdim=True)
            num = num * scale + torch.einsum("hqk,khd->hqd", p, v)
            top = new_top
        if hop < world - 1:
            k, v = rotate([k, v], rank, world)
    return (num / den).transpose(0, 1)


def reference(q, k, v):
    s = block_scores(q, k, causal=True)
    return torch.einsum("hqk,khd->qhd", s.softmax(-1), v)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    for layer in range(3):
        g = torch.Generator().manual_seed(layer)
        full = [torch.randn(BLOCK * world, HEADS, DIM, generator=g) for _ in range(3)]
        q, k, v = (t[rank * BLOCK:(rank + 1) * BLOCK] for t in full)
        out = ring_attention(q, k, v, rank, world)
        want = reference(*full)[rank * BLOCK:(rank + 1) * BLOCK]
        err = (out - want).abs().max()
        dist.all_reduce(err, op=dist.ReduceOp.MAX)
        if rank == 0:
            print(f"layer {layer} max error {err.item():.2e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
