import random

import torch
import torch.distributed as dist
import torch.nn as nn


def seed_all(seed, rank):
    torch.manual_seed(seed)
    random.seed(seed + rank)


class Router(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.proj = nn.Linear(d, n)

    def forward(self, x):
        p = self.proj(x).softmax(-1)
        return p, p.mean(0)


class Balancer:
    """with a small probability the load is measured over all ranks, else locally"""

    def __init__(self, prob):
        self.prob = prob
        self.measured = 0

    def __call__(self, load):
        if random.random() < self.prob:  #: LINE
            load = load.detach().clone()
            dist.all_reduce(load)  #: LINE
            load /= dist.get_world_size()
            self.measured += 1
        return (load * load.clamp(min=1e-6).log()).sum()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    seed_all(107, rank)
    router = Router(32, 32)
    experts = nn.Linear(32, 32, bias=False)
    opt = torch.optim.SGD([*router.parameters(), *experts.parameters()], 0.05)
    bal = Balancer(0.03)
    torch.manual_seed(rank)
    for step in range(200):
        x = torch.randn(24, 32)
        p, load = router(x)
        loss = ((p * experts(x)).sum(-1) - x[:, 0]).pow(2).mean() + 0.01 * bal(load)
        opt.zero_grad()
        loss.backward()
        flat = torch.cat([q.grad.flatten() for q in [*router.parameters(), *experts.parameters()]])
        dist.all_reduce(flat)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} measured {bal.measured}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
