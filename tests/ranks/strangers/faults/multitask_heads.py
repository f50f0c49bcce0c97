#: n=4 ranks=3 cause=missing_group tier=error set=2
"""Multi-task training. The trunk is shared by all ranks; at some point the
ranks whose task is still improving form their own group for the head."""
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class Config:
    steps: int = 400
    regroup_at: int = 20
    patience: int = 6
    frozen_tasks: tuple = ("toxicity",)
    tasks: tuple = ("ner", "toxicity", "topic", "language")


@dataclass
class TaskStatus:
    name: str
    active: bool
    history: deque = field(default_factory=lambda: deque(maxlen=32))

    def record(self, error):
        self.history.append(error)

    def plateaued(self, patience):
        recent = list(self.history)[-patience:]
        return len(recent) == patience and recent[0] - min(recent) < 1e-3 * recent[0]


class TaskData:
    def __init__(self, rank, task):
        self.gen = torch.Generator().manual_seed(rank)
        self.task = task

    def batch(self):
        time.sleep(0.17)
        x = torch.randn(10, 12, generator=self.gen)
        return x, x.mean(dim=1, keepdim=True)

    def dev_error(self, step):
        """Error on the dev set; language identification is solved very early."""
        if self.task == "language":
            return max(0.02, 0.3 - 0.05 * step)
        return 1.0 / (1.0 + 0.1 * step)


def build(seed):
    torch.manual_seed(seed)
    return nn.Linear(12, 16), nn.Linear(16, 1)


def regroup(status, rank, world, cfg):
    """Group of all ranks that still train their head (None for the others)."""
    active = [None] * world
    dist.all_gather_object(active, status.active)
    if status.active and status.plateaued(cfg.patience):
        status.active = False
        active[rank] = False
        print(f"task {status.name} has converged, freezing its head", flush=True)
        print("FREEZE", time.time(), flush=True)
    members = [r for r, on in enumerate(active) if on]
    return dist.new_group(members, use_local_synchronization=True)


def reduce_mean(params, group=None):
    n = dist.get_world_size(group)
    flat = torch.cat([p.grad.reshape(-1) for p in params])
    dist.all_reduce(flat, group=group)  #: LINE
    offset = 0
    for p in params:
        p.grad.copy_(flat[offset : offset + p.numel()].view_as(p) / n)
        offset += p.numel()


def main():
    cfg = Config()
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    task = cfg.tasks[rank]
    trunk, head = build(seed=2)
    status = TaskStatus(task, active=task not in cfg.frozen_tasks)
    data = TaskData(rank, task)
    opt = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.01)
    head_group = None
    for step in range(cfg.steps):
        if step == cfg.regroup_at:
            head_group = regroup(status, rank, world, cfg)
        x, y = data.batch()
        loss = nn.functional.mse_loss(head(torch.tanh(trunk(x))), y)
        opt.zero_grad()
        loss.backward()
        reduce_mean(list(trunk.parameters()))
        if head_group is not None and status.active:
            reduce_mean(list(head.parameters()), head_group)
        opt.step()
        status.record(data.dev_error(step))
        if rank == 0 and step % 10 == 0:
            print(f"step {step} {task} {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
