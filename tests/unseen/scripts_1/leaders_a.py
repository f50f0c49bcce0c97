"""Hierarchical averaging: leaders exchange first, then the tail of the chain follows."""
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

LIMIT = timedelta(seconds=20)


class Topology:
    LEADERS = [0, 1]
    TAIL = [1, 2]

    def __init__(self):
        self.rank = dist.get_rank()
        self.leaders = None
        if self.rank in self.LEADERS:
            self.leaders = dist.new_group(
                self.LEADERS, timeout=LIMIT, use_local_synchronization=True
            )
        self.tail = dist.new_group(self.TAIL, timeout=LIMIT)

    def average(self, params):
        for p in params:
            if self.rank in self.LEADERS:
                dist.all_reduce(p.data, group=self.leaders)
                p.data /= len(self.LEADERS)
        for p in params:
            if self.rank in self.TAIL:
                dist.broadcast(p.data, src=1, group=self.tail)


def local_steps(model, gen, n=3):
    for _ in range(n):
        x = torch.randn(8, 4, generator=gen)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.05 * p.grad)
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=LIMIT)
    topo = Topology()
    torch.manual_seed(topo.rank)
    model = nn.Linear(4, 1)
    gen = torch.Generator().manual_seed(20 + topo.rank)
    for rnd in range(6):
        loss = local_steps(model, gen)
        topo.average(list(model.parameters()))
        if topo.rank == 0:
            print(f"round {rnd}: {loss:.4f}")
    weights = [torch.empty_like(model.weight) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, model.weight.detach())
    assert torch.allclose(weights[0], weights[2])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
