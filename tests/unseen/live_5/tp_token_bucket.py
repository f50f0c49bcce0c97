"""Tensor parallel MLP stack (DTensor). Every rank reads its features through a client with a request budget."""
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS = 420
BATCH = 64


class TokenBucket:
    """Allows `rate` requests a second, with a burst."""

    def __init__(self, rate, burst):
        self.rate, self.burst, self.level = rate, burst, burst
        self.last = time.monotonic()
        self.lock = threading.Lock()

    def take(self, n=1):
        while True:
            with self.lock:
                now = time.monotonic()
                self.level = min(self.burst, self.level + (now - self.last) * self.rate)
                self.last = now
                if self.level >= n:
                    self.level -= n
                    return
                need = (n - self.level) / self.rate
            time.sleep(need)  #: LINE


class FeatureClient:
    def __init__(self, rank):
        # the limits of the nightly job were left in the settings of one machine
        limits = {1: (25.0, 64)}.get(rank, (4000.0, 400))
        self.bucket = TokenBucket(*limits)  #: LINE

    def fetch(self, step, dim):
        rows = []
        for part in range(4):
            self.bucket.take()  #: LINE
            g = torch.Generator().manual_seed(step * 4 + part)
            rows.append(torch.randn(BATCH // 4, dim, generator=g))
        return torch.cat(rows)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, dim=128, layers=3):
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.out = nn.Linear(dim, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(3)
    model = Model()
    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    client = FeatureClient(rank)
    begin = time.time()
    for step in range(STEPS):
        x = client.fetch(step, model.dim)
        y = x[:, :10].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 19:
            print(f"step {step} loss {loss.item():.3f} {(time.time() - begin) / (step + 1):.3f} s a step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
