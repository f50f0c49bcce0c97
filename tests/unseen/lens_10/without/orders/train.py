import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.a, self.b = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class Forecast(nn.Module):
    def __init__(self, columns=40, dim=224, depth=3):
        super().__init__()
        self.inp = nn.Linear(columns, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x).squeeze(-1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = Forecast()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    times, curve = [], []
    for step in range(62):
        t = time.perf_counter()
        x = torch.randn(640, 40, generator=g)
        loss = nn.functional.mse_loss(model(x), x[:, 0] * x[:, 1])
        loss.backward()
        opt.step()
        opt.zero_grad()
        total = loss.detach() / world
        curve.append(total.item())
        times.append(1000 * (time.perf_counter() - t))
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    del model, opt, loss
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
