import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import fully_shard


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)

    def forward(self, x):
        return x + torch.tanh(self.lin(x))


class Stack(nn.Module):
    def __init__(self, d, groups, per_group):
        super().__init__()
        self.groups = nn.ModuleList(nn.Sequential(*[Residual(d) for _ in range(per_group)]) for _ in range(groups))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        for layer in self.groups:
            x = layer(x)
        return self.out(x)


def prepare(model):
    for group in model.groups:
        fully_shard(group)
    return fully_shard(model)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dim, groups, per_group, batch = 384, 4, 3, 128
    model = prepare(Stack(dim, groups, per_group))
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    steps = 20
    for step in range(steps):
        if step == 3:
            begin = time.perf_counter()
        x = torch.randn(batch, dim)
        y = model(x)
        loss = (y - x.sum(1, keepdim=True)).abs().mean()
        loss.backward()
        optim.step()
        optim.zero_grad()
    if rank == 0:
        print(f"loss {loss.item():.3f} {(time.perf_counter() - begin) * 1e3 / (steps - 3):.2f} ms/step", flush=True)
    dist.destroy_process_group()
