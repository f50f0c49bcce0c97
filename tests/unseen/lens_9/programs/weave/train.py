"""A network with a shared layer, unrolled four times; sharded with FSDP2."""
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard


class Mix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.gate, self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Unrolled(nn.Module):
    def __init__(self, inputs=64, d=320, times=4):
        super().__init__()
        self.start, self.end = nn.Linear(inputs, d), nn.Linear(d, inputs)
        self.scale = nn.LayerNorm(d)
        self.cell, self.times = Mix(d), times

    def forward(self, x):
        x = self.start(x)
        for _ in range(self.times):
            x = self.cell(x)
        return self.end(self.scale(x))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Unrolled()
    fully_shard(model.cell, reshard_after_forward=False)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())
    laps, mark = [], time.perf_counter()
    for _ in range(62):
        x = torch.randn(320, 64)
        loss = F.mse_loss(model(x), x.roll(1, 1))
        loss.backward()
        opt.step()
        opt.zero_grad()
        now = time.perf_counter()
        laps.append(now - mark)
        mark = now
    ms = torch.tensor(laps[4:]) * 1000
    if dist.get_rank() == 0:
        print(f"{ms.median().item():.2f} ms/step median, {ms.mean().item():.2f} ms/step", flush=True)
    del model, opt, loss
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
