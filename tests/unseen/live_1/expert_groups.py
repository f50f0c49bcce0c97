import torch
import torch.distributed as dist
import torch.nn as nn


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1 = nn.Linear(d, 2 * d)
        self.w2 = nn.Linear(2 * d, d)

    def forward(self, x):
        return self.w2(torch.nn.functional.silu(self.w1(x)))


def assignment(world, n_experts):
    """expert -> ranks which hold a replica"""
    return {e: [r for r in range(world) if r % n_experts == e] for e in range(n_experts)}


class ExpertPool:
    def __init__(self, d, n_experts=3):
        self.rank = dist.get_rank()
        self.owner = assignment(dist.get_world_size(), n_experts)
        self.group = None
        self.expert = None
        for e, ranks in self.owner.items():
            if len(ranks) == 1:
                continue
            if self.rank in ranks:
                self.group = dist.new_group(ranks)  #: LINE
        self.stats_group = dist.new_group(list(range(dist.get_world_size())))
        torch.manual_seed(self.rank % n_experts)
        self.expert = Expert(d)

    def sync(self):
        if self.group is None:
            return
        for p in self.expert.parameters():
            dist.all_reduce(p.grad, group=self.group)


def gate(x, n):
    return x.mean(-1).mul(1000).long().abs() % n


def main():
    dist.init_process_group("gloo")
    shared = nn.Linear(16, 16)
    for p in shared.parameters():
        dist.broadcast(p.data, 0)
    warm = torch.zeros(1)
    dist.all_reduce(warm)
    pool = ExpertPool(16)
    opt = torch.optim.SGD(list(shared.parameters()) + list(pool.expert.parameters()), 0.01)
    for step in range(20):
        h = shared(torch.randn(12, 16))
        y = pool.expert(h[gate(h, 2) == 0]).sum() + h.sum()
        opt.zero_grad()
        y.backward()
        pool.sync()
        for p in shared.parameters():
            dist.all_reduce(p.grad)
        load = torch.tensor([float((gate(h, 2) == 0).sum())])
        dist.all_reduce(load, group=pool.stats_group)
        opt.step()
        if pool.rank == 0:
            print("step", step, y.item(), load.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
