import time

import torch
import torch.distributed as dist
from sharded import ShardedLinear
from torch import nn


class Net(nn.Module):
    def __init__(self, d, depth):
        super().__init__()
        self.layers = nn.ModuleList(ShardedLinear(d, d) for _ in range(depth))

    def forward(self, x):
        total = 0.0
        for layer in self.layers:
            x, p = layer(x)
            x = torch.relu(x)
            total = total + p
        return x, total


def main(steps: int = 22, weight: float = 1e-3):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    net = Net(768, 5)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(steps):
        if step == 3:
            t0 = time.perf_counter()
        x = torch.randn(64, 768)
        y, penalty = net(x)
        loss = (y - x).square().mean() + weight * penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
    if rank == 0:
        print(f"loss {loss.item():.4f} {(time.perf_counter() - t0) * 1e3 / (steps - 3):.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
