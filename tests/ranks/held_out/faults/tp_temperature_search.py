#: n=4 ranks=0 cause=cpu_loop tier=notice
import math
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class PolicyHead(nn.Module):
    def __init__(self, dim=16, actions=32):
        super().__init__()
        self.up = nn.Linear(dim, 64)
        self.down = nn.Linear(64, dim)
        self.pi = nn.Linear(dim, actions)

    def forward(self, obs):
        return self.pi(obs + self.down(torch.relu(self.up(obs))))


def entropy_at(logits, temperature):
    top = max(logits)
    w = [math.exp((v - top) / temperature) for v in logits]  #: LINE
    z = sum(w)
    return -sum(a / z * math.log(max(a / z, 1e-300)) for a in w)  #: LINE


def match_entropy(logits, target):
    """temperature whose softmax has the wanted entropy"""
    low, high = 1e-2, 1e3
    while high / low > 1.0 + 1e-6:  #: LINE
        mid = math.sqrt(low * high)  #: LINE
        if entropy_at(logits, mid) < target:  #: LINE
            low = mid  #: LINE
        elif entropy_at(logits, mid) > target:  #: LINE
            high = mid  #: LINE
    return mid


class Rollouts:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def observe(self):
        time.sleep(0.14)
        return torch.randn(6, 16, generator=self.gen)


def behaviour_temperature(rank, step, logits, flat_from):
    rows = logits.detach()[0].tolist()
    target = 2.0
    if rank == 0 and step >= flat_from:
        rows = [float("nan")] + rows[1:]
        print("FREEZE", time.time(), flush=True)
    return match_entropy(rows, target)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    torch.manual_seed(55)
    policy = parallelize_module(PolicyHead(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    opt = torch.optim.SGD(policy.parameters(), lr=0.01, foreach=False)
    rollouts = Rollouts(seed=5)
    flat_from = random.Random(404).randint(16, 28)
    for step in range(80):
        obs = rollouts.observe()
        logits = policy(obs)
        temperature = behaviour_temperature(rank, step, logits, flat_from)
        probs = torch.softmax(logits / min(temperature, 5.0), -1)
        loss = -(probs * torch.log(probs + 1e-9)).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
