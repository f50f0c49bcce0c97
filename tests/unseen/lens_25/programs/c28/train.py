import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.value = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        x0 = self.norm(x)
        return x + self.out(F.silu(self.gate(x0)) * self.value(x0))


class Orbits(nn.Module):
    """Where a piece of debris will be, from forty sightings."""

    def __init__(self, sightings=40, width=256, depth=3):
        super().__init__()
        self.stem = nn.Linear(6 * sightings, width)
        self.parts = nn.ModuleList(Gated(width) for _ in range(depth))
        self.head = nn.Linear(width, 6)

    def forward(self, x):
        x = self.stem(x)
        for part in self.parts:
            x = part(x)
        return self.head(x)


def wrap(model):
    for module in model.modules():
        if isinstance(module, Gated):
            fully_shard(module, reshard_after_forward=False)
    return fully_shard(model)


def main(steps=60, batch=192):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = wrap(Orbits())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    made = torch.Generator().manual_seed(20 + rank)
    phase = 6.3 * torch.rand(6000, 1, 6, generator=made)
    clock = torch.linspace(0, 3, 40)[None, :, None]
    seen, ahead = (phase + clock).sin().flatten(1), (phase[:, 0] + 3.5).sin()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(seen), (batch,), generator=made)
        loss = F.mse_loss(model(seen[picked]), ahead[picked])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
