"""Ring all-reduce written by hand, used to average the gradients of a toy model."""
import datetime as dt
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Ring:
    """Send to the right neighbour, receive from the left one."""

    def __init__(self):
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.right = (self.rank + 1) % self.size
        self.left = (self.rank - 1) % self.size

    def shift(self, out):
        incoming = torch.empty_like(out)
        if self.rank % 2 == 0:
            dist.send(out, dst=self.right)
            dist.recv(incoming, src=self.left)
        else:
            dist.recv(incoming, src=self.left)
            dist.send(out, dst=self.right)
        return incoming

    def allreduce(self, vec):
        total = vec.clone()
        piece = vec.clone()
        for _ in range(self.size - 1):
            piece = self.shift(piece)
            total += piece
        return total


def flat_grads(model):
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def scatter_grads(model, flat):
    at = 0
    for p in model.parameters():
        n = p.numel()
        p.grad.copy_(flat[at:at + n].view_as(p))
        at += n


def main():
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=20))
    ring = Ring()
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    gen = torch.Generator().manual_seed(100 + ring.rank)

    for step in range(6):
        x = torch.randn(12, 10, generator=gen)
        y = (x.sum(dim=1) > 0).long()
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        scatter_grads(model, ring.allreduce(flat_grads(model)) / ring.size)
        opt.step()
        if ring.rank == 0:
            print(f"[{os.getpid()}] step {step}: {loss.item():.4f}")

    mine = torch.stack([p.detach().sum() for p in model.parameters()])
    everyone = [torch.empty_like(mine) for _ in range(ring.size)]
    dist.all_gather(everyone, mine)
    spread = max((mine - e).abs().max().item() for e in everyone)
    assert spread < 1e-4, spread
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
