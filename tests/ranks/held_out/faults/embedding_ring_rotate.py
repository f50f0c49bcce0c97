#: n=4 ranks=* cause=cycle_p2p tier=error set=3
"""Contrastive training where key blocks travel around a ring of ranks."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Ring:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.next = (self.rank + 1) % self.world
        self.prev = (self.rank - 1) % self.world

    def rotate(self, block):
        if block.size(0) <= 8:
            return self._alternating(block)
        return self._streamed(block)

    def _alternating(self, block):
        """Even ranks send first, odd ones receive first."""
        got = torch.empty_like(block)
        if self.rank % 2 == 0:
            dist.send(block, self.next)
            dist.recv(got, self.prev)
        else:
            dist.recv(got, self.prev)
            dist.send(block, self.next)
        return got

    def _streamed(self, block):
        """Large blocks go out in halves to keep buffers small."""
        if self.rank == 0:
            print("FREEZE", time.time(), flush=True)
        parts = []
        for half in block.chunk(2):
            dist.send(half.contiguous(), self.next)
            got = torch.empty_like(half)
            dist.recv(got, self.prev)
            parts.append(got)
        return torch.cat(parts)


def queue_size(step):
    """The key block grows after the warm-up."""
    return 8 if step < 20 else 16


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(10, 6)

    def forward(self, x):
        return nn.functional.normalize(self.proj(x), dim=-1)


def contrast(q, k, ring):
    """Similarity of own queries with the key blocks of all ranks."""
    logits = [q @ k.t()]
    block = k
    for _ in range(ring.world - 1):
        block = ring.rotate(block)
        logits.append(q @ block.t())
    target = torch.arange(q.size(0))
    return nn.functional.cross_entropy(torch.cat(logits, dim=1), target)


def average(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(world)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    ring = Ring()
    torch.manual_seed(0)
    enc = Encoder()
    opt = torch.optim.SGD(enc.parameters(), lr=0.1)
    gen = torch.Generator().manual_seed(ring.rank)
    for step in range(60):
        time.sleep(0.15)
        x = torch.randn(queue_size(step), 10, generator=gen)
        loss = contrast(enc(x), enc(x + 0.05).detach(), ring)
        opt.zero_grad()
        loss.backward()
        average(enc, ring.world)
        opt.step()
        if ring.rank == 0 and step % 5 == 0:
            print(f"step {step} nce {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
