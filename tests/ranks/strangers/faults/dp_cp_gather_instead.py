#: n=8 ranks=6 cause=different_op tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist

TIMEOUT = timedelta(minutes=10)


def make_groups(rank):
    """tensor pairs, context pairs, and the combined data x context group used for gradients"""
    found = {}
    layout = {
        "tp": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "cp": [[0, 2], [1, 3], [4, 6], [5, 7]],
        "dp": [[0, 4], [1, 5], [2, 6], [3, 7]],
        "dp_cp": [[0, 2, 4, 6], [1, 3, 5, 7]],
    }
    for name, families in layout.items():
        for ranks in families:
            g = dist.new_group(ranks, timeout=TIMEOUT)
            if rank in ranks:
                found[name] = g
    return found


class GradientReducer:
    def __init__(self, params, group):
        self.params, self.group = list(params), group
        self.world = dist.get_world_size(group)
        self.bitwise = False

    def flatten(self):
        return torch.cat([p.grad.reshape(-1) for p in self.params])

    def unflatten(self, flat):
        at = 0
        for p in self.params:
            p.grad = flat[at : at + p.numel()].view_as(p).clone()
            at += p.numel()

    def fast(self, flat):
        dist.all_reduce(flat, group=self.group)
        return flat / self.world

    def fixed_order(self, flat):
        parts = [torch.empty_like(flat) for _ in range(self.world)]
        dist.all_gather(parts, flat, group=self.group)  #: LINE
        total = parts[0].clone()
        for p in parts[1:]:
            total += p
        return total / self.world

    def reduce(self):
        flat = self.flatten()
        self.unflatten(self.fixed_order(flat) if self.bitwise else self.fast(flat))


class ColumnRowBlock(torch.nn.Module):
    def __init__(self, groups, width=24):
        super().__init__()
        self.groups = groups
        self.a = torch.nn.Linear(width, width // 2)
        self.b = torch.nn.Linear(width // 2, width)

    def forward(self, x):
        partial = self.b(torch.nn.functional.gelu(self.a(x)))
        whole = partial.detach().clone()
        dist.all_reduce(whole, group=self.groups["tp"])
        return partial + (whole - partial.detach())


def exchange_context(x, groups):
    halves = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(halves, x, group=groups["cp"])
    return torch.cat(halves).mean(0, keepdim=True)


def reproducibility_audit(step, rank, reducer, audit_step):
    if rank == 6 and step == audit_step:
        reducer.bitwise = True
        print("FREEZE", time.time(), flush=True)


def main():
    dist.init_process_group("gloo", timeout=TIMEOUT)
    rank = dist.get_rank()
    groups = make_groups(rank)
    torch.manual_seed(40 + rank % 2)
    model = ColumnRowBlock(groups)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    reducer = GradientReducer(model.parameters(), groups["dp_cp"])
    audit_step = random.Random(606).randint(15, 27)
    for step in range(90):
        time.sleep(0.15)
        x = torch.randn(6, 24)
        context = exchange_context(x, groups)
        loss = (model(x) - context).square().mean()
        loss.backward()
        reproducibility_audit(step, rank, reducer, audit_step)
        reducer.reduce()
        opt.step()
        opt.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


main()
