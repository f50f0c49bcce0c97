"""Replica exchange: chains at five temperatures swap states in pairs; the pairing alternates."""
import math

import torch
import torch.distributed as dist


def energy(x):
    return (x.square().sum(-1) / 8 - torch.cos(3 * x).sum(-1)).sum()


class Chain:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.beta = 1.0 / (0.5 * 1.8 ** rank)
        self.gen = torch.Generator().manual_seed(rank)
        self.x = torch.randn(400, 16, generator=self.gen)
        self.swaps = 0

    def sweep(self, n):
        x = self.x.clone().requires_grad_(True)
        for _ in range(n):
            (grad,) = torch.autograd.grad(energy(x), x)
            noise = torch.randn(x.shape, generator=self.gen)
            x = (x - 0.01 * grad + math.sqrt(0.02 / self.beta) * noise).detach().requires_grad_(True)
        self.x = x.detach()

    def partner(self, rnd):
        p = self.rank + 1 if (self.rank + rnd) % 2 == 0 else self.rank - 1
        return p if 0 <= p < self.world else None

    def exchange(self, rnd):
        p = self.partner(rnd)
        if p is None:
            return  # the end of the ladder rests in this round
        mine = torch.tensor([energy(self.x).item() / len(self.x), self.beta])
        theirs = torch.empty(2)
        ops = [dist.P2POp(dist.isend, mine, p), dist.P2POp(dist.irecv, theirs, p)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        gain = (mine[0] - theirs[0]) * (mine[1] - theirs[1])
        coin = torch.rand(1, generator=torch.Generator().manual_seed(1000 * rnd + min(self.rank, p))).item()
        if coin < min(1.0, math.exp(min(0.0, gain.item()))):
            box = torch.empty_like(self.x)
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, self.x, p), dist.P2POp(dist.irecv, box, p)])
            for work in works:
                work.wait()
            self.x = box
            self.swaps += 1


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    chain = Chain(rank, world)
    for rnd in range(1, 121):
        chain.sweep(25 + 8 * rank)  # hot chains move further
        chain.exchange(rnd)
        if rnd % 40 == 0:
            table = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
            dist.all_gather(table, torch.tensor([chain.swaps]))
            if rank == 0:
                print("round", rnd, "swaps", [int(t) for t in table], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
