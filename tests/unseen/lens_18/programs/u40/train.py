import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


class Wide(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.calm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, h):
        return h + self.down(F.silu(self.up(self.calm(h))))


class Profiles(nn.Module):
    """Age of a user from what was listened to."""

    def __init__(self, inputs=200, width=512, inner=1024):
        super().__init__()
        self.enter, self.leave = nn.Linear(inputs, width), nn.Linear(width, 1)
        self.layers = nn.Sequential(*(Wide(width, inner) for _ in range(3)))

    def forward(self, x):
        return self.leave(self.layers(self.enter(x))).squeeze(1)


def shard(model, mesh):
    """One unit for each wide layer; what is left is gathered with the root."""
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


def main(steps=60, batch=256):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(Profiles(), init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    g = torch.Generator().manual_seed(rank)
    heard = torch.rand(6000, 200, generator=g)
    age = 3 * (heard[:, :20].sum(1) - heard[:, 20:40].sum(1))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 6000, (batch,))
        loss = F.huber_loss(model(heard[picked]), age[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
