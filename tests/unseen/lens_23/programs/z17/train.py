import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from heads import LastHeads


class Mixer(nn.Module):
    def __init__(self, width, points):
        super().__init__()
        self.across = nn.Sequential(nn.Linear(points, 2 * points), nn.GELU(), nn.Linear(2 * points, points))
        self.inside = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.across(x.transpose(1, 2)).transpose(1, 2)
        return x + self.inside(x)


class Harbour(nn.Module):
    """Which of nine kinds of ship is heard, from 32 moments of 64 tones."""

    def __init__(self, tones=64, moments=32, width=288, kinds=9):
        super().__init__()
        self.enter = nn.Linear(tones, width)
        self.mixers = nn.Sequential(*(Mixer(width, moments) for _ in range(3)))
        self.head = nn.Linear(width, kinds)

    def forward(self, sound):
        return self.head(self.mixers(self.enter(sound)).mean(1))


def main(steps=60, batch=8):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(3)
    sounds = torch.randn(9, 32, 64)
    model = Harbour()
    for mixer in model.mixers:
        fully_shard(mixer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    last = LastHeads(model.head)
    torch.manual_seed(30 + dist.get_rank())
    times = []
    for step in range(steps):
        began = time.perf_counter()
        kind = torch.randint(0, 9, (batch,))
        loss = F.cross_entropy(model(sounds[kind] + 2 * torch.randn(batch, 32, 64)), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last.keep()
        times.append(1e3 * (time.perf_counter() - began))
    model.head.load_state_dict(last.mean())
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
