# Mixture-of-experts toy: the first two ranks hold the shared expert
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import flightrec  # noqa: F401

EXPERT_RANKS = [0, 1]


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Trunk(nn.Module):
    def __init__(self, dim, n_out):
        super().__init__()
        self.embed = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, n_out)

    def forward(self, x):
        return torch.relu(self.embed(x))


class Groups:
    """The groups of this rank. The one for the metrics has a long timeout."""

    def __init__(self, rank):
        self.expert = None
        self.metrics = None
        if rank in EXPERT_RANKS:
            self.expert = dist.new_group(EXPERT_RANKS)

    def for_metrics(self):
        if self.metrics is None:
            self.metrics = dist.new_group()
        return self.metrics


def reduce_grads(module, group=None):
    n = dist.get_world_size(group)
    for p in module.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, group=group)
            p.grad /= n


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1234)
    trunk, expert = Trunk(24, 5), Expert(24, 48)
    opt = torch.optim.Adam([*trunk.parameters(), *expert.parameters()], lr=2e-3)
    groups = Groups(rank)

    gen = torch.Generator().manual_seed(rank)
    for step in range(1, 501):
        x = torch.randn(16, 24, generator=gen)
        y = torch.randint(0, 5, (16,), generator=gen)
        h = trunk(x)
        if groups.expert is not None:
            h = h + expert(h)
        loss = F.cross_entropy(trunk.head(h), y)
        opt.zero_grad()
        loss.backward()
        reduce_grads(trunk)
        if groups.expert is not None:
            reduce_grads(expert, groups.expert)
        opt.step()
        if step % 50 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean, group=groups.for_metrics())
            if rank == 0:
                print(f"step {step:4d}  loss {mean.item() / dist.get_world_size():.4f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
