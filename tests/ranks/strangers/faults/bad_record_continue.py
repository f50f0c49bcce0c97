#: n=4 ranks=1 cause=swallowed_exception tier=error
import logging
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

log = logging.getLogger("train")


class GraphDataset:
    def __init__(self, rank, broken_step):
        self.rank, self.broken_step = rank, broken_step

    def load(self, step):
        time.sleep(0.15)
        g = torch.Generator().manual_seed(step * 4 + self.rank)
        n = int(torch.randint(5, 9, (1,), generator=g))
        feats = torch.randn(n, 12, generator=g)
        edges = torch.randint(0, n, (2, 3 * n), generator=g)
        if self.rank == 1 and step == self.broken_step:
            edges[0, 0] = n + 4
        return feats, edges


def validate(feats, edges):
    if int(edges.max()) >= feats.shape[0]:
        print("FREEZE", time.time(), flush=True)
        raise ValueError(f"edge points to node {int(edges.max())}, graph has {feats.shape[0]}")  #: LINE


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 24), nn.Linear(24, 1)

    def propagate(self, h, edges):
        out = torch.zeros_like(h)
        return out.index_add(0, edges[1], h[edges[0]])

    def forward(self, feats, edges):
        h = torch.relu(self.a(feats))
        return self.b(h + 0.1 * self.propagate(h, edges)).mean()


class Loop:
    def __init__(self, model, data):
        self.model, self.data = model, data
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.hyper = torch.tensor([1e-3])
        self.dropped = 0

    def refresh_hyper(self, step):
        if dist.get_rank() == 0:
            self.hyper[0] = 1e-3 * 0.99**step
        dist.broadcast(self.hyper, src=0)  #: LINE
        for group in self.opt.param_groups:
            group["lr"] = float(self.hyper)

    def learn(self, step):
        feats, edges = self.data.load(step)
        validate(feats, edges)
        loss = (self.model(feats, edges) - feats.mean()).pow(2)
        self.opt.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in self.model.parameters()])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        at = 0
        for p in self.model.parameters():
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        self.opt.step()

    def run(self, steps):
        for step in range(steps):
            self.refresh_hyper(step)
            try:
                self.learn(step)
            except ValueError:
                log.exception("step %d: batch dropped", step)
                self.dropped += 1
                continue  #: LINE


def main():
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(3)
    Loop(GCN(), GraphDataset(rank, random.Random(888).randint(16, 30))).run(80)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
