"""Multi-task model: a shared trunk with a head per task; each rank samples a task per step."""
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

TASKS = ("depth", "normal")


class MultiTask(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, 32), nn.SiLU())
        self.heads = nn.ModuleDict({"depth": nn.Linear(32, 1), "normal": nn.Linear(32, 3)})

    def forward(self, x, tasks):
        h = self.trunk(x)
        return {t: self.heads[t](h) for t in tasks}  #: LINE


class Sampler:
    """mostly both tasks; scenes without normals give depth alone"""

    def __init__(self, rank):
        self.rank = rank
        self.rng = random.Random(rank)

    def tasks(self, step):
        if self.rank == 1 and step == 14:
            return ("depth",)
        return TASKS

    def batch(self, step):
        g = torch.Generator().manual_seed(step * 7 + self.rank)
        return torch.randn(8, 16, generator=g), self.tasks(step)


def criterion(outs, x):
    loss = 0.0
    for name, o in outs.items():
        target = x[:, :o.shape[1]]
        loss = loss + (o - target).abs().mean()
    return loss


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DDP(MultiTask())
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    sampler = Sampler(rank)
    for step in range(40):
        x, tasks = sampler.batch(step)
        loss = criterion(net(x, tasks), x)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if rank == 0:
            print(f"step {step} {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
