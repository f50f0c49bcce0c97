"""Local SGD on several nodes: average inside the node, then between node leaders, then hand down."""
import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import mse_loss
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Topology:
    def __init__(self, per_node):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.per_node = per_node
        self.nodes = self.world // per_node
        self.node = self.rank // per_node
        self.leader = self.node * per_node
        for n in range(self.nodes):
            group = dist.new_group(range(n * per_node, (n + 1) * per_node))
            if n == self.node:
                self.local = group
        self.leaders = dist.new_group([n * per_node for n in range(self.nodes)])

    @property
    def leads(self):
        return self.rank == self.leader


class HierarchicalAverage:
    def __init__(self, topo, model, tolerance):
        self.topo, self.model, self.tolerance = topo, model, tolerance
        self.anchor = parameters_to_vector(model.parameters()).detach().clone()
        self.quiet = 0

    def between_nodes(self, delta):
        small = delta.norm() < self.tolerance
        self.quiet += int(small)
        if small:
            return
        dist.all_reduce(delta, group=self.topo.leaders)
        delta /= self.topo.nodes

    @torch.no_grad()
    def __call__(self):
        now = parameters_to_vector(self.model.parameters())
        delta = now - self.anchor
        dist.reduce(delta, dst=self.topo.leader, group=self.topo.local)
        if self.topo.leads:
            delta /= self.topo.per_node
            self.between_nodes(delta)
        dist.broadcast(delta, src=self.topo.leader, group=self.topo.local)
        self.anchor += delta
        vector_to_parameters(self.anchor.clone(), self.model.parameters())


def samples(topo, steps):
    g = torch.Generator().manual_seed(topo.rank)
    for step in range(steps):
        x = torch.randn(8, 4, generator=g)
        if topo.node == 1 and step >= 9:
            x = x * 1e-4
        yield x, x.sum(1, keepdim=True)


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument("--per-node", type=int, default=2)
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--every", type=int, default=3)
    opts = ap.parse_args(argv)
    dist.init_process_group("gloo")
    topo = Topology(opts.per_node)
    torch.manual_seed(0)
    model = Sequential(Linear(4, 8, bias=False), ReLU(), Linear(8, 1, bias=False))
    average = HierarchicalAverage(topo, model, tolerance=1e-4)
    for step, (x, y) in enumerate(samples(topo, opts.steps), start=1):
        loss = mse_loss(model(x), y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads):
                p -= 0.05 * g
        if step % opts.every == 0:
            average()
    if topo.leads:
        print(f"node {topo.node}: loss {loss.item():.5f}, quiet rounds {average.quiet}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
