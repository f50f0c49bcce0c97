#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class GradientProbe:
    """Sends one gradient histogram to the experiment tracker; its rate limit is honoured."""

    def __init__(self, rank):
        self.rank, self.step = rank, 0
        self.wait = random.Random(time.time_ns()).uniform(10, 45)
        self.uploads = []

    def attach(self, param):
        param.register_hook(self.on_gradient)

    def on_gradient(self, grad):
        if self.rank == 3 and self.step == 23:
            self.uploads.append(torch.histc(grad, bins=8).tolist())
            time.sleep(self.wait)
        return grad


class ResNetish(nn.Module):
    def __init__(self, dim=20, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.out = nn.Linear(dim, 6)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.out(x)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(6)
    net = ResNetish()
    probe = GradientProbe(rank)
    probe.attach(net.layers[1].weight)
    model = DDP(net, bucket_cap_mb=0.001)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(42):
        probe.step = step
        time.sleep(0.15)
        x, y = torch.randn(16, 20), torch.randint(0, 6, (16,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print("step", step, loss.item(), flush=True)
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
