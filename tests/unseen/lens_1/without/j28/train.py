import time

import torch
import torch.distributed as dist
from parallel import average, mean_of
from torch import nn
from torch.nn import functional as F


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, 24)
        self.b = nn.Linear(24, d)
        self.scale = nn.Parameter(torch.ones(d))
        self.shift = nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return x + self.b(F.silu(self.a(x * self.scale + self.shift)))


class Tower(nn.Module):
    def __init__(self, d=64, n=20):
        super().__init__()
        self.experts = nn.ModuleList(Expert(d) for _ in range(n))
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        for e in self.experts:
            x = e(x)
        return self.head(x)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = Tower()
params = list(model.parameters())
optimizer = torch.optim.Adam(params, lr=1e-3, foreach=True)
torch.manual_seed(rank)
N = 24
for it in range(N):
    if it == 3:
        tic = time.perf_counter()
    x = torch.randn(96, 64)
    loss = F.mse_loss(model(x), x.mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    average(params, world)
    optimizer.step()
if rank == 0:
    print("it %d loss %.4f, %.2f ms/step" % (N, loss.item(), (time.perf_counter() - tic) / (N - 3) * 1e3), flush=True)
dist.destroy_process_group()
